"""What an installable harness is."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from swe_sdk.errors import HarnessUnavailable

_INSTALL_TIMEOUT_S = 900.0


class Maker(Protocol):
    """One harness at one version, and how its files come to be in a directory."""

    @property
    def name(self) -> str:
        """As its agent is called."""

    @property
    def version(self) -> str:
        """Pinned."""

    def key(self) -> str:
        """Changes with anything that would make other files. ``PrerequisiteError`` where it cannot be made here."""

    def make(self, directory: Path) -> None:
        """Fill an empty directory, which may be moved afterwards. Blocks; raises ``PrerequisiteError``."""


def run_client(
    harness: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    remedy: str,
) -> str:
    """What a client of a package index, or a program just installed, printed; ``HarnessUnavailable`` if it failed."""
    try:
        done = subprocess.run(
            command, env=env, cwd=cwd, capture_output=True, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL, timeout=_INSTALL_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HarnessUnavailable(harness, f"{command[0]} did not do it: {error}", remedy=remedy) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-1500:]
        raise HarnessUnavailable(harness, f"it could not be installed: {said}", remedy=remedy)
    return done.stdout
