"""The build steps of an environment, as commands in a box."""

from __future__ import annotations

import hashlib
import re
import shlex
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from swe_sdk.errors import BuildFailed, CapabilityMissing, SandboxLost
from swe_sdk.model.environment import DirectorySource, GitSource, SdistSource, SourceEnvironment
from swe_sdk.sandbox import history
from swe_sdk.sandbox import sources as packing
from swe_sdk.sandbox.contract import Box, SupportsProcesses, Toolchain

VERSION = 1
"""Changes whenever the same environment would be built differently: old builds are then left unused."""
VENV = "/opt/venv"
BASE_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
STEP_TIMEOUT_S = 1800.0
STOP_TIMEOUT_S = 30.0
_ARCHIVE = "/tmp/swe_sdk-source.tar"
_DATE = "2000-01-01T00:00:00Z"
_GIT_ENV = {
    "GIT_AUTHOR_NAME": "swe_sdk",
    "GIT_AUTHOR_EMAIL": "swe_sdk@localhost",
    "GIT_COMMITTER_NAME": "swe_sdk",
    "GIT_COMMITTER_EMAIL": "swe_sdk@localhost",
    "GIT_AUTHOR_DATE": _DATE,
    "GIT_COMMITTER_DATE": _DATE,
    # git's own housekeeping runs on in the background, and would keep the layer from being frozen
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "gc.auto",
    "GIT_CONFIG_VALUE_0": "0",
    "GIT_CONFIG_KEY_1": "maintenance.auto",
    "GIT_CONFIG_VALUE_1": "false",
}
_PIP = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1", "PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off"}
_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")

Say = Callable[[str], None]


def search_path(toolchain: Toolchain, *, venv: bool) -> str:
    """PATH in a box of an environment."""
    return ":".join([*((f"{VENV}/bin",) if venv else ()), *toolchain.path, *BASE_PATH])


async def virtual_environment(box: Box, python: str, pip: tuple[str, ...], settings: dict[str, str], say: Say) -> None:
    """Make the virtual environment and install its pins into it."""
    say("making the virtual environment")
    await _run(box, "python -m venv", f"{shlex.quote(python)} -m venv {VENV}", {})
    if pip:
        say(f"installing {len(pip)} pinned packages")
        requirements = "/tmp/swe_sdk-requirements.txt"
        await box.write(requirements, "".join(f"{pin}\n" for pin in pip).encode())
        await _run(box, "pip install", f"python -m pip install --no-deps -r {requirements}", settings)
        await _run(box, "clean up", f"rm {requirements}", {})


async def sources(box: Box, environment: SourceEnvironment, settings: dict[str, str], say: Say) -> str:
    """Bring the sources in, install them, commit; returns the id of the base commit."""
    run = partial(_run, box, cwd=environment.workdir)
    await box.exec(["mkdir", "-p", environment.workdir], cwd="/")
    say("fetching the sources")
    match environment.source:
        case SdistSource() as sdist:
            await _unpack_sdist(box, sdist, environment.workdir, settings)
        case DirectorySource() as directory:
            await _unpack(box, partial(packing.pack_directory, directory), environment.workdir)
        case GitSource() as git:
            await _check_out(box, git, environment.workdir)
    add = "git add -A -f ." if isinstance(environment.source, SdistSource) else "git add -A ."
    if not isinstance(environment.source, GitSource):
        await run(
            "git init", f"git -c init.defaultBranch=main init -q && {add} && git commit -q --allow-empty -m base", {}
        )
    await run("git config", "git config gc.auto 0 && git config maintenance.auto false", {})
    for number, command in enumerate((*environment.pre_install, *environment.install), start=1):
        say(f"install step {number}")
        await run(f"install step {number}: {command}", command, settings)
    # What the installation changed belongs to the base, so that it is not taken for the model's patch.
    await run("git commit", f"{add} && {{ git diff --cached --quiet || git commit -q -m 'base, installed'; }}", {})
    commit = (await run("git rev-parse", "git rev-parse HEAD", {})).strip()
    if isinstance(environment.source, GitSource):
        say("scrubbing the history")
        await history.scrub(box, environment.workdir, commit)
    return commit


async def stop_everything(box: Box) -> None:
    """A daemon that a build left behind would keep its layer from being frozen.

    One by one: a remote box has processes of its system's own, which a signal to all of them would end as well.
    """
    deadline = anyio.current_time() + STOP_TIMEOUT_S
    while (running := await _running(box)) and anyio.current_time() < deadline:
        await box.exec(f"kill -9 {running} 2>/dev/null; exit 0", cwd="/", timeout_s=STOP_TIMEOUT_S)
        await anyio.sleep(0.02)


async def _running(box: Box) -> str:
    """The numbers of its processes; none as well where the box cannot say."""
    try:
        processes = await box.processes() if isinstance(box, SupportsProcesses) else []
    except CapabilityMissing:
        return ""
    return " ".join(str(process.pid) for process in processes)


async def _unpack_sdist(box: Box, sdist: SdistSource, workdir: str, settings: dict[str, str]) -> None:
    """pip fetches it, in the box: reading its metadata may run its code."""
    where = "/tmp/swe_sdk-sdist"
    pinned = shlex.quote(f"{sdist.name}=={sdist.version}")
    fetch = f"python -m pip download --no-deps --no-binary :all: -d {where} {pinned}"
    # The pins hold the build backend, and isolation would fetch others; where they do not, isolation is the way.
    await _run(box, f"pip download {pinned}", f"{fetch} --no-build-isolation || {fetch}", settings)
    name = (await _run(box, "ls", f"ls {where}", {})).strip()
    content = await box.read(f"{where}/{name}")
    found = hashlib.sha256(content).hexdigest()
    if found != sdist.sha256:
        raise BuildFailed(f"check {name}", f"its sha256 is {found}, not {sdist.sha256}", remedy="correct the row")
    file = f"{where}/{shlex.quote(name)}"
    if name.endswith(".zip"):
        unpack = (
            f"python -m zipfile -e {file} {where}/out && mv {where}/out/*/* {where}/out/*/.[!.]* {workdir}/ || true"
        )
    else:
        unpack = f"tar --no-same-owner --strip-components=1 -xf {file} -C {shlex.quote(workdir)}"
    await _run(box, f"unpack {name}", f"{unpack}; rm -rf {where}", {})


async def _check_out(box: Box, git: GitSource, workdir: str) -> None:
    commit = await to_thread.run_sync(packing.resolve_commit, git)
    await _unpack(box, partial(packing.pack_commit, git.url, commit), f"{workdir}/.git")
    command = f"git config core.bare false && git symbolic-ref HEAD refs/heads/main && git reset -q --hard {commit}"
    await _run(box, "git checkout", command, {}, cwd=workdir)


async def _unpack(box: Box, pack: Callable[[Path], None], target: str) -> None:
    with tempfile.TemporaryDirectory(prefix="swe_sdk-") as directory:
        archive = Path(directory) / "source.tar"
        await to_thread.run_sync(pack, archive)
        await box.upload(archive, _ARCHIVE)
    where = shlex.quote(target)
    command = f"mkdir -p {where} && tar --no-same-owner -xf {_ARCHIVE} -C {where} && rm {_ARCHIVE}"
    await _run(box, "unpack sources", command, {})


async def _run(box: Box, step: str, command: str, settings: dict[str, str], cwd: str = "/") -> str:
    """Run one step; its output, or ``BuildFailed``, or ``SandboxLost`` where the box died under it."""
    env = {**_PIP, **_GIT_ENV, **settings}
    result = await box.exec(command, cwd=cwd, env=env, merge_stderr=True, timeout_s=STEP_TIMEOUT_S)
    if result.status == "lost":
        raise SandboxLost(f"the sandbox died in the build step {step!r}")
    if not result.ok:
        remedy = "" if settings == {} else "is the package index reachable from this machine?"
        output = _without_passwords(result.stdout, settings)
        raise BuildFailed(step, f"{output}\n(it {result.summary})", remedy=remedy)
    return result.stdout


def _without_passwords(output: str, settings: dict[str, str]) -> str:
    """What a step printed, without the passwords that are part of the addresses of package indexes."""
    for password in {found for value in settings.values() for found in _PASSWORD.findall(value)}:
        output = output.replace(password, "****")
    return output
