"""A .sif file out of what Apptainer pulls, or out of another one: whole or not at all."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import anyio
from anyio import to_thread

from swe_sdk.errors import CreateFailed, ImageNotFound, NoSpace, PullFailed
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.images.reference import parse_reference
from swe_sdk.sandbox.images.settings import RegistrySettings
from swe_sdk.sandbox.providers.apptainer.diagnosis import last_words
from swe_sdk.sandbox.providers.apptainer.program import Program, environment, run
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.sandbox.providers.apptainer.sif import file_system_offset
from swe_sdk.sandbox.providers.local.layers import remove_tree

URI = re.compile(r"^(docker|oras|library|shub)://|^(docker-archive|docker-daemon|oci-archive|oci):(?://)?")
"""What Apptainer itself fetches or converts."""
_SQUASHFS = ("--mksquashfs-args", "-comp zstd -Xcompression-level 1 -all-root")
"""A tenth of the time of the default, for a file that is a little larger; and root owns all, as boxes need it."""
_NOT_ALL = 2
"""The exit code of unsquashfs where it could not make device files, or owners of files, as an ordinary user."""
_UNKNOWN = re.compile(r"manifest unknown|name unknown|not found|unauthorized|denied|invalid reference", re.IGNORECASE)
_HOPELESS = re.compile(r"no such file|unsupported|invalid (?:tar|image)|unexpected eof", re.IGNORECASE)
_DISK_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


class Builder:
    """What is half made lies in ``scratch``, which goes with this process, however it ends."""

    def __init__(
        self, program: Program, scratch: Path, settings: ApptainerSettings, registries: RegistrySettings
    ) -> None:
        self._program = program
        self._scratch = scratch
        self._settings = settings
        self._registries = registries

    async def build(self, source: str, target: Path) -> None:
        """Make ``target`` out of a URI or a file, in several attempts where that may help.

        ``ImageNotFound``, ``PullFailed``, ``CreateFailed`` or ``NoSpace``.
        """
        pause_s, output = self._settings.backoff_s, ""
        for attempt in range(1, self._settings.build_attempts + 1):
            self._require_space(target.parent)
            output = await self._attempt(source, target)
            if not output:
                return
            if _DISK_FULL.search(output):
                raise NoSpace(f"no space left to pull {source}", remedy=f"free some on the disk of {target.parent}")
            if _UNKNOWN.search(output) or _HOPELESS.search(output) or attempt == self._settings.build_attempts:
                break
            await anyio.sleep(pause_s * random.uniform(0.75, 1.25))
            pause_s *= 3
        kind = ImageNotFound if _UNKNOWN.search(output) else PullFailed
        where = ", ".join(self._settings.image_dirs) or "a directory of SWE_SDK_SIF_DIR"
        raise kind(
            f"apptainer could not get {source}: {last_words(output)}",
            remedy=f"is the name right? Or put a .sif file into {where}",
        )

    async def _attempt(self, source: str, target: Path) -> str:
        """What went wrong, or ""."""
        scratch = self._scratch / new_id("image")
        scratch.mkdir()
        try:
            if not URI.match(source):
                await self._unpack(Path(source), scratch / "root")
                source = str(scratch / "root")
            insecure = ("--no-https",) if self._is_insecure(source) else ()
            command = ("build", "--disable-cache", *insecure, *_SQUASHFS, str(scratch / "image.sif"), source)
            env = environment(APPTAINER_TMPDIR=str(scratch))
            ended = await run((self._program.path, *command), timeout_s=self._settings.build_timeout_s, env=env)
            if ended.exit_code:
                return ended.output or f"it ended with exit code {ended.exit_code}"
            (scratch / "image.sif").rename(target)
            return ""
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(remove_tree, scratch)

    async def _unpack(self, image: Path, target: Path) -> None:
        """Not by Apptainer, whose ``build`` starts a container for it: as root that takes more power than some have."""
        unsquashfs = self._program.helper("unsquashfs")
        if unsquashfs is None:
            raise CreateFailed(
                f"the files of {image} have several owners, and boxes have one user",
                remedy=f'install squashfs-tools, or `apptainer build --mksquashfs-args "-all-root" NEW.sif {image}`',
            )
        command = (unsquashfs, "-no-progress", "-d", str(target), "-o", str(file_system_offset(image)), str(image))
        ended = await run(command, timeout_s=self._settings.build_timeout_s)
        if ended.exit_code not in (0, _NOT_ALL):
            raise CreateFailed(f"{image} could not be unpacked: {last_words(ended.output)}", remedy="is it complete?")

    def _is_insecure(self, source: str) -> bool:
        if not source.startswith("docker://"):
            return False
        return self._registries.scheme(parse_reference(source).host) == "http"

    def _require_space(self, directory: Path) -> None:
        free, wanted = shutil.disk_usage(directory).free, self._settings.free_bytes
        if free < wanted:
            raise NoSpace(
                f"{free >> 20} MiB are free in {directory}; an image is pulled from {wanted >> 20} MiB on",
                remedy="free some disk, or set SWE_SDK_STATE elsewhere",
            )
