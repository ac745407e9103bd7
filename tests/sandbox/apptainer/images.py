"""What tests of the Apptainer provider stand on: the program, and images made here, once on a machine."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.shared import need_program

PACKAGES = "python3,python3-venv,git,ca-certificates,procps,patch"
_CACHE = Path(tempfile.gettempdir()) / "swe_sdk-test-images"
_SQUASHFS = "-comp zstd -Xcompression-level 1"


@cache
def apptainer() -> str:
    """The program, by ``$SWE_SDK_APPTAINER`` or from PATH. Without it the test is skipped; on CI it fails."""
    named = os.environ.get("SWE_SDK_APPTAINER")
    if named is None:
        need_program("apptainer")
    for helper in ("mksquashfs", "unsquashfs"):
        need_program(helper)
    found = shutil.which(named or "apptainer")
    assert found is not None, f"there is no {named}"
    return found


@cache
def debian_sif() -> Path:
    """Debian 12 with Python, git and the usual tools, all of it root's."""
    return _debian("debian12", PACKAGES)


@cache
def compiler_sif() -> Path:
    """The same, with what tasks in C are built with."""
    return _debian("debian12-c", f"{PACKAGES},gcc,libc6-dev,make")


def _debian(name: str, packages: str) -> Path:
    def make(folder: Path) -> None:
        need_program("mmdebstrap")
        command = ["mmdebstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(folder / "root")]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        build(folder / "image.sif", folder / "root", all_root=True)

    return _kept(name, packages, make) / "image.sif"


@cache
def busybox_sif() -> Path:
    """One static program and no library, no Python, no bash, no /mnt; and not all of it root's."""
    if os.geteuid() != 0:
        pytest.skip("only root can make an image with files of other users")

    def make(folder: Path) -> None:
        root = folder / "root"
        furnish(root)
        for path in (root / "home/worker", root / "home/worker/file"):
            os.chown(path, 1234, 5678)
        build(folder / "image.sif", root, all_root=False)

    return _kept("busybox", "3", make) / "image.sif"


def busybox_directory(root: Path) -> Path:
    """The same as a directory, which belongs to the caller."""
    furnish(root)
    return root


def furnish(root: Path) -> None:
    program = shutil.which("busybox")
    if program is None:
        need_program("busybox")
    for directory in ("bin", "etc", "root", "tmp", "home/worker"):
        (root / directory).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy(str(program), root / "bin/busybox")
    for name in subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    (root / "home/worker/file").write_text("theirs\n")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nworker:x:1234:5678::/home/worker:/bin/sh\n")


def build(target: Path, source: Path, *, all_root: bool) -> None:
    """A .sif file of a directory."""
    options = f"{_SQUASHFS}{' -all-root' if all_root else ''}"
    command = [apptainer(), "build", "--mksquashfs-args", options, str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def _kept(name: str, content: str, make: Callable[[Path], None]) -> Path:
    """A folder that ``make`` has filled, now or earlier, in this process or another."""
    final = _CACHE / f"{name}-{hashlib.sha256(f'{content} {_SQUASHFS}'.encode()).hexdigest()[:12]}"
    _CACHE.mkdir(exist_ok=True, mode=0o755)
    with (_CACHE / f"{final.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not final.exists():
            folder = Path(tempfile.mkdtemp(dir=_CACHE))
            make(folder)
            shutil.rmtree(folder / "root")
            folder.chmod(0o755)
            folder.rename(final)
    return final
