"""From a request for a sandbox to one in which commands can run, or to none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio

from swe_sdk.errors import CreateFailed, SandboxError

_READY_S = 60.0
_LOOK_S = 0.05
_KILL_CAP_S = 30.0


async def make_ready(
    make: Callable[[], Awaitable[str]],
    answers: Callable[[str], Awaitable[bool]],
    kill: Callable[[str], Awaitable[None]],
) -> str:
    """Make a sandbox and wait until it ``answers``, which is asked again and again, so it must not take long itself.

    Where it fails, or is cancelled, nothing stays. ``CreateFailed`` where nothing ever answers.
    """
    with anyio.CancelScope(shield=True):  # what is made without our knowing its id would be lost
        sandbox = await make()
    try:
        with anyio.move_on_after(_READY_S):
            while not await answers(sandbox):
                await anyio.sleep(_LOOK_S)
            return sandbox
        raise CreateFailed(f"nothing answers in sandbox {sandbox}", remedy="can its address be reached from here?")
    except BaseException:
        with anyio.move_on_after(_KILL_CAP_S, shield=True), suppress(SandboxError):
            await kill(sandbox)
        raise
