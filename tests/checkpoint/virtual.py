"""Time that costs nothing: an event loop whose clock jumps to the next timer when nothing else is to be done."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import selectors
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from unittest.mock import patch

import anyio
from anyio import to_thread

T = TypeVar("T")
EPOCH = 1_700_000_000.0


class _Selector(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events and timeout:
            self.loop.now += timeout
        assert events or timeout is not None, "everything waits, and nothing will ever happen"
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 1000.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def clock() -> float:
    """Unix seconds of the simulation."""
    return EPOCH + asyncio.get_running_loop().time()


async def _inline(function: Callable[..., T], *args: Any, **_settings: Any) -> T:
    """Threads take real time; what they do is done here and now."""
    await anyio.lowlevel.checkpoint()
    result = function(*args)
    await anyio.lowlevel.checkpoint()
    return result


def simulate(main: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function with virtual time and without threads."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(to_thread, "run_sync", _inline))
        stack.enter_context(patch("swe_sdk.files.os.fsync", lambda _fd: None))
        return anyio.run(main, backend_options={"loop_factory": VirtualLoop})


def simulated(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine function, on virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        simulate(lambda: test(*args, **kwargs))

    return run
