"""Why a container has died, by what the engine has recorded: the container itself is gone by then."""

from __future__ import annotations

import time
from typing import Any

from swe_sdk.errors import SweError
from swe_sdk.sandbox.providers.docker.engine import Engine

_CAP_S = 5.0
_SETTLE_S = 0.3
"""Full memory and death are told by two ways, and either word may be the first."""
_LOOK_S = 0.05


async def ran_out_of_memory(engine: Engine, container: str, since: float) -> bool:
    """Whether the kernel has killed something in the container because its memory was full; asked after its death."""

    def look(api: Any) -> bool:
        has_died, settled = False, time.monotonic() + _CAP_S
        while time.monotonic() < settled:
            actions = _actions(api, container, since)
            if "oom" in actions:
                return True
            if "die" in actions and not has_died:
                has_died, settled = True, time.monotonic() + _SETTLE_S
            time.sleep(_LOOK_S)
        return False

    try:
        return await engine.call("read its events", look, abandon=True)
    except SweError:
        return False  # the engine itself is in trouble: nothing is known, and the box is lost


def _actions(api: Any, container: str, since: float) -> set[str]:
    filters = {"container": container, "event": ["oom", "die"]}
    found = api.events(since=f"{since:.3f}", until=f"{time.time():.3f}", filters=filters, decode=True)
    return {str(event["Action"]) for event in found}
