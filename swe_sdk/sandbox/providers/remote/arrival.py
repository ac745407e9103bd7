"""From a sandbox of the system to a box: our supervisor is brought in, started, and given what it is to show."""

from __future__ import annotations

import json
import os
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.errors import CreateFailed, InputError, SandboxLost
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.boxside.ring import CALL
from swe_sdk.sandbox.contract import Mount
from swe_sdk.sandbox.providers.remote.calls import Calls
from swe_sdk.sandbox.providers.remote.engine import Engine, Upload
from swe_sdk.sandbox.runtime import Runtime

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.remote.box import RemoteBox

PLACE = "/.swe_sdk"
_BOXES = f"{PLACE}/box"
_START = "import sys; from boxside import station; station.main(*sys.argv[1:])"
_START_S = 60.0
_MOST_FILES = 2000
_UNPACKED = "unpacked"


def calls_to(engine: Engine, sandbox: str, box_id: str, runtime: Runtime) -> Calls:
    """The way to the supervisor of a box, whoever has started it."""
    return Calls(engine, sandbox, f"{_BOXES}/{box_id}", runtime.interpreter(_home(runtime)))


async def start_station(calls: Calls, runtime: Runtime, workdir: str) -> None:
    """Start the supervisor. What it runs on is brought only where a snapshot has not brought it already."""
    if await _start(calls, workdir):
        return
    if not await _unpack(calls, runtime):
        await calls.upload(*await to_thread.run_sync(lambda: list(_files(runtime.path, _home(runtime)))))
    if not await _start(calls, workdir):
        raise CreateFailed("our supervisor does not start in the sandbox", remedy="is /bin/sh in its image?")


async def _unpack(calls: Calls, runtime: Runtime) -> bool:
    """Bring it as an archive, a third of its size; False where the image has not what unpacks that."""
    home, archive = _home(runtime), f"{_home(runtime)}.tar.gz"
    await calls.upload(Upload(archive, await to_thread.run_sync(_packed, runtime), 0o600))
    line = f"mkdir -p {home} && tar -xzf {archive} -C {home} && echo {_UNPACKED}; rm -f {archive}"
    return _UNPACKED in await _said(calls, line, {})


def _packed(runtime: Runtime) -> Path:
    """Made once for each runtime, beside it."""
    archive = runtime.path.with_name(f"{runtime.path.name}.tar.gz")
    if not archive.exists():
        half_made = archive.with_name(new_id("part"))
        with tarfile.open(half_made, "w:gz", compresslevel=6) as file:
            file.add(runtime.path, ".")
        half_made.rename(archive)
        for other in archive.parent.glob("*.tar.gz"):
            if not other.with_name(other.name.removesuffix(".tar.gz")).is_dir():
                other.unlink(missing_ok=True)  # of a runtime that nobody has used for long
    return archive


async def _start(calls: Calls, workdir: str) -> bool:
    """Whether it has started; ``CreateFailed`` with its own word where it has tried."""
    line = f"exec {shlex.join([*calls.python, '-c', _START, calls.place])}"
    said = await _said(calls, line, {CALL: json.dumps({"workdir": workdir})})
    word, _, rest = next(filter(None, said), "").partition(" ")
    if word == "failed:":
        raise CreateFailed(f"our supervisor could not start in the sandbox: {rest}")
    return word in ("ended", "told")


async def _said(calls: Calls, line: str, env: dict[str, str]) -> list[str]:
    """The lines that a command of ours prints."""
    said: list[str] = []
    try:
        with anyio.fail_after(_START_S):
            await calls.engine.run(calls.sandbox, line, env, said.append)
    except TimeoutError:
        raise SandboxLost(f"sandbox {calls.sandbox} did not start our supervisor within {_START_S:.0f} s") from None
    return said


def _home(runtime: Runtime) -> str:
    """Of this version of it: a snapshot may bring another one."""
    return f"{PLACE}/{runtime.path.name}"


def _files(directory: Path, target: str) -> Iterator[Upload]:
    for folder, _folders, names in os.walk(directory):
        for name in names:
            path = Path(folder) / name
            if path.is_file():  # and no link to nowhere
                yield Upload(f"{target}/{path.relative_to(directory)}", path, path.stat().st_mode & 0o777)


async def bring_mounts(box: RemoteBox) -> None:
    """Copies of this machine's directories and files, as nothing of this machine can be mounted there.

    ``InputError`` for what is not there, or is too much.
    """
    files = await to_thread.run_sync(lambda: [upload for mount in box.spec.mounts for upload in _copies(mount)])
    if len(files) > _MOST_FILES:
        raise InputError(
            f"{len(files)} files are too many to be copied into a remote box", remedy="put them into an image"
        )
    plain = [upload for upload in files if upload.path.isascii()]
    if plain:
        await box.calls.upload(*plain)
    for upload in files:
        if not upload.path.isascii():
            assert isinstance(upload.data, Path)
            await box.upload(upload.data, upload.path)


def _copies(mount: Mount) -> Iterator[Upload]:
    source = Path(mount.source)
    if not source.exists():
        raise InputError(f"{source}, which is to be mounted, is not there")
    yield from _files(source, mount.target) if source.is_dir() else [Upload(mount.target, source)]
