"""The Debian that environments are built on where nobody names a base image."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile

from benchmarks.rows import Unavailable

PACKAGES = "python3,python3-venv,git,ca-certificates,procps,patch"


def debian_image() -> str:
    """Debian 12 with Python 3.11, git and the usual tools, in the Docker engine: made once, by ``mmdebstrap``.

    The name tells what is in it. Raises ``Unavailable``.
    """
    name = f"swe-sdk-test:debian12-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:12]}"
    if shutil.which("docker") is None:
        raise Unavailable("there is no docker program (Debian, Ubuntu: apt-get install docker.io)")
    if _run("docker", "image", "inspect", name).returncode == 0:
        return name
    if shutil.which("mmdebstrap") is None:
        raise Unavailable("there is no base image and no mmdebstrap to make one: name one by --base-image")
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        options = ("--variant=minbase", "--format=tar", f"--include={PACKAGES}")
        for command in (
            ("mmdebstrap", *options, "bookworm", archive.name),
            ("docker", "import", archive.name, name),
        ):
            done = _run(*command)
            if done.returncode != 0:
                raise Unavailable(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
    return name


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
