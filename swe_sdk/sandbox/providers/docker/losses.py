"""Why a container has died, by what the engine has recorded: the container itself is gone by then."""

from __future__ import annotations

import time
from typing import Any

from swe_sdk.errors import SweError
from swe_sdk.sandbox.providers.docker.engine import Engine

_SETTLE_S = 0.1
"""The engine hears of a death from the kernel, as we do, and may be later."""


async def ran_out_of_memory(engine: Engine, container: str, since: float) -> bool:
    """Whether the kernel has killed something in the container because its memory was full."""

    def oom_events(api: Any) -> list[Any]:
        until = f"{time.time() + _SETTLE_S:.3f}"
        filters = {"container": container, "event": "oom"}
        return list(api.events(since=f"{since:.3f}", until=until, filters=filters, decode=True))

    try:
        return bool(await engine.call("read its events", oom_events))
    except SweError:
        return False  # the engine itself is in trouble: nothing is known, and the box is lost
