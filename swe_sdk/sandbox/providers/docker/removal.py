"""Removing a container for sure, whatever its state and whoever else removes it at the same time."""

from __future__ import annotations

import anyio

from swe_sdk.errors import SandboxError
from swe_sdk.sandbox.providers.docker.engine import Engine
from swe_sdk.sandbox.providers.docker.failures import Conflict, EngineSilent, NotThere, Refused

_CAP_S = 90.0
_FIRST_LOOK_S = 0.01
_LONGEST_LOOK_S = 0.5


async def remove_container(engine: Engine, container: str) -> None:
    """Kill and remove it with its volumes; returns when the engine knows it no more. One that is not there is no error.

    ``SandboxError`` where the engine does not answer, or still has it after a while.
    """
    pause_s = _FIRST_LOOK_S
    with anyio.move_on_after(_CAP_S):
        while not await _is_removed(engine, container):
            await anyio.sleep(pause_s)  # it is being removed: by us, another process, or the engine itself
            pause_s = min(2 * pause_s, _LONGEST_LOOK_S)
        return
    raise SandboxError(f"the container {container} is still there {_CAP_S:.0f} s after it was to be removed")


async def _is_removed(engine: Engine, container: str) -> bool:
    try:
        await engine.call(
            "remove a container",
            lambda api: api.remove_container(container, v=True, force=True),
            abandon=True,  # asking again does no harm, and the cap holds though the engine hangs
        )
    except NotThere:
        pass
    except (Conflict, Refused, EngineSilent):
        return await engine.inspect(container) is None
    return True
