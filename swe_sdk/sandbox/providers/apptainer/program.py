"""The program ``apptainer``: where it is, which version, and how it is run to its end.

Why not ``spython`` (0.3.14, read and run against Apptainer 1.4.5): it starts a program named ``singularity`` from PATH,
once more before each call for its version, and blocks without a timeout and without a way to kill. It splits commands
at spaces, returns a text or a dictionary depending on what happened, cannot tell standard output from standard error,
decodes both strictly, and ends this process (``sys.exit``) where the source of a bind mount is missing. What it would
serve for, inspecting images and listing instances, we need not: an image tells its variables by being started, and a
box is no instance (see ``container``). So nothing of it is used, and the program is run with deadlines.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from swe_sdk.errors import CreateFailed, ProviderUnavailable

OLDEST = (1, 1)
"""The first that makes itself root of a user namespace without a range of ids for the user (``--ignore-subuid``)."""
_KEPT = ("PATH", "HOME", "USER", "TMPDIR", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_KEPT_PREFIXES = ("APPTAINER_DOCKER_", "APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "APPTAINER_CONFIG_FILE")
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_OUTPUT_BYTES = 1 << 16
_START_S = 20.0
_KILL_CAP_S = 10.0
_GUARDED = """
import os, signal, subprocess, sys, threading
def watch():
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)
threading.Thread(target=watch, daemon=True).start()
sys.exit(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode)
"""
"""Runs a program until that ends, or standard input does: it goes, with its children, when this process is killed."""
_INSTALL = "install apptainer (apptainer.org; no root needed) or load its module, or name it: SWE_SDK_APPTAINER=PATH"


@dataclass(frozen=True)
class Program:
    """An ``apptainer`` that is new enough."""

    path: str
    version: str

    def helper(self, name: str) -> str | None:
        """The path of a program that it brings along, or that is on PATH."""
        own = Path(os.path.realpath(self.path)).parent.parent / "libexec/apptainer/bin"
        return shutil.which(name, path=f"{own}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


@dataclass(frozen=True)
class Ended:
    """A run that came to its end."""

    exit_code: int
    output: str
    """The end of what it printed, on both streams."""


def find_program(named: str | None) -> Program:
    """The program on this machine; ``ProviderUnavailable`` where it is absent, broken or too old. Blocks briefly."""
    path = shutil.which(named or "apptainer")
    if path is None:
        if named is None and shutil.which("singularity") is not None:
            problem = "there is no apptainer here; of its cousin singularity we know too little"
            raise ProviderUnavailable(problem, remedy=_INSTALL)
        raise ProviderUnavailable(f"there is no program {named or 'apptainer'!r} here", remedy=_INSTALL)
    try:
        command = [path, "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_START_S, env=environment(), check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise ProviderUnavailable(f"{path} does not run: {error}", remedy=_INSTALL) from error
    found = re.search(r"apptainer version (\d+)\.(\d+)\S*", done.stdout)
    if found is None:
        raise ProviderUnavailable(f"{path} is no apptainer: it says {done.stdout.strip()[:100]!r}", remedy=_INSTALL)
    if (int(found[1]), int(found[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ProviderUnavailable(f"{path} is {found[0]}, which is too old", remedy=f"apptainer {oldest} or newer")
    return Program(path, found[0].removeprefix("apptainer version "))


def environment(**changes: str) -> dict[str, str]:
    """The variables for ``apptainer``: of this process's, only those about itself. Images must see no others."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith(_KEPT_PREFIXES) or name.lower() in _PROXIES
    }
    return {"PATH": os.defpath, **kept, "LC_ALL": "C.UTF-8", **changes}


async def run(command: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end. It is killed, with its children, when cancelled, or after ``timeout_s``.

    That is a ``CreateFailed`` then.
    """
    process = await anyio.open_process(
        [sys.executable, "-I", "-S", "-c", _GUARDED, *command],
        stdin=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env or environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        with anyio.fail_after(timeout_s):
            output = await _tail(process.stdout)
            code = await process.wait()
    except TimeoutError:
        raise CreateFailed(f"`{' '.join(command)[:200]}` did not end within {timeout_s:.0f} s") from None
    finally:
        await _end(process)
    return Ended(code, output)


async def _tail(stream: ByteReceiveStream) -> str:
    kept = b""
    async for piece in stream:
        kept = (kept + piece)[-_OUTPUT_BYTES:]
    return kept.decode("utf-8", "replace").strip()


async def _end(process: Process) -> None:
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended
    with anyio.move_on_after(_KILL_CAP_S, shield=True):
        await process.wait()
        await process.aclose()
