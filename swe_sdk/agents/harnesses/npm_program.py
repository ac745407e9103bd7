"""A harness that is one program in a package of the npm registry: nothing of Node.js is needed to run it."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swe_sdk.agents.harnesses.maker import run_client
from swe_sdk.agents.harnesses.registry_file import fetch_from_registry
from swe_sdk.errors import HarnessUnavailable
from swe_sdk.model.ids import content_key

_BLOCK = 1 << 20


@dataclass(frozen=True)
class NpmFile:
    """The package for one machine architecture, and the program in it."""

    package: str
    sha512: str
    """Digest (base64) of its tarball, as the registry states it."""
    program: str
    """Path in the tarball."""
    suffix: str = ""
    """Of the version, where builds for other machines are other versions of one package."""


@dataclass(frozen=True)
class NpmProgram:
    """One file of a package's tarball, as ``bin/<its name>``; ``files`` has a package for each machine architecture."""

    name: str
    version: str
    files: Mapping[str, NpmFile]

    def key(self) -> str:
        """By the digest of the tarball."""
        return content_key([self.version, self._file().sha512])

    def make(self, directory: Path) -> None:
        """Have npm fetch the tarball, or fetch it as npm is configured where there is no npm; check and unpack it."""
        tarball = directory / "package.tgz"
        if shutil.which("npm") is not None:
            self._pack(directory, tarball)
        else:
            fetch_from_registry(self.name, self._file().package, self._wanted(), tarball)
        self._check(tarball)
        self._unpack(tarball, directory / "bin" / Path(self._file().program).name)
        tarball.unlink()

    def _pack(self, directory: Path, tarball: Path) -> None:
        wanted = f"{self._file().package}@{self._wanted()}"
        command = ["npm", "pack", wanted, "--ignore-scripts", "--silent", "--pack-destination", str(directory)]
        remedy = "see that npm reaches its registry: npm ping"
        printed = run_client(self.name, command, env=os.environ, cwd=directory, remedy=remedy)
        (directory / printed.split()[-1]).rename(tarball)

    def _check(self, tarball: Path) -> None:
        digest = hashlib.sha512()
        with tarball.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        if base64.b64encode(digest.digest()).decode() != self._file().sha512:
            raise HarnessUnavailable(
                self.name, "the registry's file is not the one that was tried", remedy="look at what registry npm asks"
            )

    def _unpack(self, tarball: Path, target: Path) -> None:
        target.parent.mkdir()
        with tarfile.open(tarball) as archive:
            source = archive.extractfile(self._file().program)
            if source is None:
                raise HarnessUnavailable(self.name, f"{self._file().program} is no file of its package")
            with source, target.open("wb") as file:
                shutil.copyfileobj(source, file, _BLOCK)
        target.chmod(0o755)

    def _wanted(self) -> str:
        return self.version + self._file().suffix

    def _file(self) -> NpmFile:
        machine = platform.machine()
        try:
            return self.files[machine]
        except KeyError:
            raise HarnessUnavailable(
                self.name, f"there is no build for {machine}", remedy=f"there is one for {', '.join(self.files)}"
            ) from None
