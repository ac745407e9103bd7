"""Wait for an engine that has stopped answering: whatever is begun meanwhile would be lost for nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import chain, repeat

import anyio

from swe_sdk.errors import SweError
from swe_sdk.sandbox.contract import SandboxProvider, SupportsPing

PATIENCE_S = 300.0
"""An engine is restarted in less; one that is away for longer is for people to look at."""
_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_LONGEST_PAUSE_S = 5.0
_SLOW_S = 5.0
"""Who has not answered for so long is said to be away: one that hangs may take a minute to say nothing."""
_log = logging.getLogger(__name__)


async def outlast_outage(
    provider: SandboxProvider, *, patience_s: float = PATIENCE_S, on_progress: Callable[[str], None] | None = None
) -> None:
    """Return when ``provider`` answers, or else after ``patience_s`` seconds: what is tried then says what is wrong.

    A provider without an engine of its own (the local one) always answers, and nobody waits for one whose ``ping`` is
    broken. ``on_progress`` hears of an outage, and of its end. Raises nothing of the provider's.
    """
    if not isinstance(provider, SupportsPing):
        return
    outage = _Outage(provider.name, patience_s, on_progress or (lambda _text: None))
    with anyio.move_on_after(patience_s):
        for pause_s in chain(_PAUSES_S, repeat(_LONGEST_PAUSE_S)):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(outage.begins_if_slow)
                trouble = await _trouble(provider)
                tasks.cancel_scope.cancel()
            if trouble is None:
                outage.ends()
                return
            outage.begins(trouble)
            await anyio.sleep(pause_s)


async def _trouble(provider: SupportsPing) -> str | None:
    """Why it does not answer; None where it does, or nobody can tell."""
    try:
        await provider.ping()
    except SweError as error:
        return error.message
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001  it is no worse off than one that has no ping
        _log.warning("%s cannot be asked for a sign of life: %r", type(provider).__name__, error)
    return None


class _Outage:
    """What is told of one."""

    def __init__(self, name: str, patience_s: float, tell: Callable[[str], None]) -> None:
        self._name = name
        self._patience_s = patience_s
        self._tell = tell
        self._is_told = False

    def begins(self, why: str) -> None:
        """Told once."""
        if not self._is_told:
            self._is_told = True
            self._tell(f"{self._name} does not answer, waiting for it up to {self._patience_s:.0f} s: {why}")

    async def begins_if_slow(self) -> None:
        """Unless cancelled before."""
        await anyio.sleep(_SLOW_S)
        self.begins(f"nothing came within {_SLOW_S:.0f} s")

    def ends(self) -> None:
        """Told where its beginning was."""
        if self._is_told:
            self._tell(f"{self._name} answers again")
