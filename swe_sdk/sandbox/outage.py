"""Wait for an engine that has stopped answering: whatever is begun meanwhile would be lost for nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat

import anyio

from swe_sdk.errors import SweError
from swe_sdk.sandbox.contract import SandboxProvider, SupportsPing

PATIENCE_S = 300.0
"""An engine is restarted in less; one that is away for longer is for people to look at."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_LONGEST_PAUSE_S = 5.0


async def outlast_outage(
    provider: SandboxProvider, *, patience_s: float = PATIENCE_S, on_progress: Callable[[str], None] | None = None
) -> None:
    """Return when ``provider`` answers, or else after ``patience_s`` seconds: what is tried then says what is wrong.

    A provider without an engine of its own (the local one) always answers. ``on_progress`` hears of an outage, and of
    its end. Never raises but for cancellation.
    """
    if not isinstance(provider, SupportsPing):
        return
    tell = on_progress or (lambda _text: None)
    is_away = False
    with anyio.move_on_after(patience_s):
        for pause_s in chain(_PAUSES_S, repeat(_LONGEST_PAUSE_S)):
            try:
                await provider.ping()
            except SweError as error:
                if not is_away:
                    is_away = True
                    tell(f"{provider.name} does not answer, waiting for it up to {patience_s:.0f} s: {error.message}")
                await anyio.sleep(pause_s)
            else:
                if is_away:
                    tell(f"{provider.name} answers again")
                return
