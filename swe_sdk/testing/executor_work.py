"""What the jobs of the executor suite do, wherever they run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio

from swe_sdk import paths
from swe_sdk.executors.place import Place
from swe_sdk.files import write_atomic
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.registry import get_provider

ECHO, WAIT, WAIT_FOR, FAIL, FAIL_WITH_NO_TEXT, NO_JSON, NO_TEXT, COUNT, HOLD = (
    f"{__name__}:{name}"
    for name in ("echo", "wait", "wait_for", "fail", "fail_with_no_text", "no_json", "no_text", "count", "hold")
)
_NO_TEXT = os.fsdecode(b"caf\xe9")
"""The name of a file, as Python reads it: no UTF-8 can hold it."""


async def echo(given: dict[str, Any], place: Place) -> dict[str, Any]:
    """What it was given."""
    return given


async def wait(given: dict[str, Any], place: Place) -> str:
    """``{"seconds": ...}``: the node, after so many seconds."""
    await anyio.sleep(given["seconds"])
    return place.node


async def wait_for(given: dict[str, Any], place: Place) -> str:
    """``{"file": ...}``: the node, as soon as there is such a file."""
    while not os.path.exists(given["file"]):
        await anyio.sleep(0.05)
    return place.node


async def fail(given: dict[str, Any], place: Place) -> None:
    """``{"message": ...}``: raises."""
    raise ValueError(given["message"])


async def fail_with_no_text(given: dict[str, Any], place: Place) -> None:
    """Raises what no encoding can write down."""
    raise ValueError(_NO_TEXT)


async def no_json(given: dict[str, Any], place: Place) -> object:
    """Something that cannot travel."""
    return object()


async def no_text(given: dict[str, Any], place: Place) -> list[str]:
    """Something that looks as if it could travel."""
    return [_NO_TEXT]


async def count(given: dict[str, Any], place: Place) -> str:
    """``{"file": ..., "seconds": ...}``: adds a line to the file, waits, and returns the line."""
    line = f"{place.node} {os.getpid()}\n"
    fd = os.open(given["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)
    await anyio.sleep(given["seconds"])
    return line


async def hold(given: dict[str, Any], place: Place) -> str:
    """``{"word": ..., "seconds": ..., "folder": ...}``: run a program that bears the word in a local sandbox.

    When it runs, there is a file ``<pid of the worker>-<word>`` in the folder, with the worker's state directory.
    """
    provider = await get_provider("local")
    box = await provider.create(SandboxSpec())
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_say_that_it_runs, Path(given["folder"]), given["word"])
            await box.exec(["sh", "-c", 'sleep "$1"; :', given["word"], str(given["seconds"])], cwd="/")
    finally:
        with anyio.CancelScope(shield=True):
            await box.close()
    return place.node


async def _say_that_it_runs(folder: Path, word: str) -> None:
    await anyio.sleep(0.1)
    write_atomic(folder / f"{os.getpid()}-{word}", str(paths.state_dir()).encode(), sync=False)
