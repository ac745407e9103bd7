"""The images that tests stand on, made here: one like most task images, and one without Python and a C library."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.shared import lacking, need_program

MAKE_BASE_IMAGE = Path(__file__).resolve().parents[3] / "scripts" / "make_base_image.sh"
_PACKAGES = "python3,python3-venv,git,ca-certificates,procps,patch"
_BUSYBOX = tuple(
    """
awk basename cat chmod chown cksum cp cut date dd dirname du echo env expr false find grep head id kill ln ls md5sum
mkdir mkfifo mktemp mv od printf ps pwd readlink rm rmdir sed seq sh sleep sort split stat tail tar tee test
touch tr true uname wc which xargs yes
""".split()  # noqa: SIM905 - as one reads it
)


def need_engine() -> None:
    """Skip the test where no Docker engine answers. On CI it fails."""
    need_program("docker")
    if subprocess.run(["docker", "info"], capture_output=True, timeout=60).returncode != 0:
        lacking("no Docker engine answers")


@cache
def debian_image() -> str:
    """Debian 12 with Python, git and the usual tools. Made once on a machine: the name tells what is in it."""
    need_engine()
    name = _named("debian12", _PACKAGES)
    if not _is_there(name):
        need_program("mmdebstrap")
        command = ["mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", "-"]
        with tempfile.TemporaryFile() as archive:
            subprocess.run(command, stdout=archive, stderr=subprocess.PIPE, check=True, timeout=600)
            archive.seek(0)
            subprocess.run(["docker", "import", "-", name], stdin=archive, check=True, capture_output=True, timeout=300)
    return name


@cache
def tools_image() -> str:
    """What ``scripts/make_base_image.sh`` makes: Debian with the tools of tasks in other languages too."""
    need_engine()
    name = _named("tools", MAKE_BASE_IMAGE.read_text())
    if not _is_there(name):
        need_program("mmdebstrap")
        subprocess.run([str(MAKE_BASE_IMAGE), name], check=True, capture_output=True, timeout=900)
    return name


@cache
def busybox_image() -> str:
    """A shell and small tools, all in one static program; users besides root."""
    need_engine()
    name = _named("busybox", "1 " + " ".join(_BUSYBOX))
    if not _is_there(name):
        program = Path("/bin/busybox")
        if not program.exists():
            need_program("busybox")
        with tempfile.TemporaryDirectory() as folder:
            _furnish(Path(folder), program)
            archive = subprocess.run(["tar", "-C", folder, "-c", "."], capture_output=True, check=True).stdout
        changes = ["-c", "USER worker", "-c", "ENV LD_PRELOAD=/nothing.so", "-c", "ENV FROM_IMAGE=yes"]
        subprocess.run(["docker", "import", *changes, "-", name], input=archive, check=True, capture_output=True)
    return name


def _furnish(root: Path, program: Path) -> None:
    for directory in ("bin", "etc", "root", "tmp", "home/worker"):
        (root / directory).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "bin/busybox").write_bytes(program.read_bytes())
    (root / "bin/busybox").chmod(0o755)
    for name in _BUSYBOX:
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nworker:x:1234:5678::/home/worker:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nstaff:x:5678:\nextra:x:99:worker\n")
    os.chown(root / "home/worker", 1234, 5678)


def _named(kind: str, content: str) -> str:
    return f"swe-sdk-test:{kind}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _is_there(name: str) -> bool:
    return subprocess.run(["docker", "image", "inspect", name], capture_output=True).returncode == 0
