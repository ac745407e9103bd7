"""Commands that take long are stopped in order: by Ctrl-C, and by SIGTERM, which batch systems and containers send."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


class Stopped(KeyboardInterrupt):
    """A command was told to stop, and has: every sandbox of it is closed."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number
        """The signal."""


def run_stoppable(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """``anyio.run``. The first SIGINT or SIGTERM cancels ``work``, which cleans up after itself.

    A second one ends the process at once, with exit code 128 + its number; what is left then has leases, and is reaped.
    A signal that the process was started to ignore, as SIGINT of a shell's background job, stays ignored; in another
    thread than the main one none is heard.

    Raises :class:`Stopped` where it was cancelled.
    """
    return anyio.run(_until_told, work)


async def _until_told(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with anyio.CancelScope() as scope:
        told = _Told(asyncio.get_running_loop(), scope)
        with told.handling(signal.SIGINT, signal.SIGTERM):
            return await work()
    assert told.number is not None
    raise Stopped(told.number)


class _Told:
    """What the process was told, by signals."""

    def __init__(self, loop: asyncio.AbstractEventLoop, scope: anyio.CancelScope) -> None:
        self._loop, self._scope = loop, scope
        self.number: int | None = None
        """The first signal."""

    @contextmanager
    def handling(self, *numbers: signal.Signals) -> Iterator[None]:
        """Hear those signals, unless they are ignored.

        By handlers of the process rather than of the loop: the second signal must be heard where the loop hangs.
        """
        is_main = threading.current_thread() is threading.main_thread()
        before = {number: signal.getsignal(number) for number in numbers if is_main}
        heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
        for number in heard:
            signal.signal(number, self._hear)
        try:
            yield
        finally:
            for number in heard:
                signal.signal(number, before[number])

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self.number is not None:
            os._exit(128 + number)
        self.number = number
        self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._scope.cancel()
        print("swe-sdk: closing sandboxes; told once more, it ends at once", file=sys.stderr, flush=True)  # noqa: T201
