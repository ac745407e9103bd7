"""A root file system with two programs of this machine and their libraries: the same for all contenders."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

PROGRAMS = ("/bin/true", "/bin/sleep")
_MOUNT_POINTS = ("proc", "dev", "sys", "tmp", "etc")


def make_tiny_root(root: Path) -> Path:
    """Fill the new directory ``root``."""
    for name in _MOUNT_POINTS:
        (root / name).mkdir(parents=True)
    for program in PROGRAMS:
        for path in (program, *_libraries(program)):
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return root


def _libraries(program: str) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)
