"""Small things that wait: for a change, for a deadline, for work that goes on after its caller has left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import anyio

from swe_sdk.checkpoint.codes import refuse

T = TypeVar("T")
Clock = Callable[[], float]
"""Unix seconds."""


class Changes:
    """Wakes everybody who waits whenever something may have changed."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def notify(self) -> None:
        """Wake them."""
        self._event.set()
        self._event = anyio.Event()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Until the next change, or the timeout."""
        event = self._event
        with anyio.move_on_after(timeout_s):
            await event.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Until a condition holds, looked at after each change."""
        while not holds():
            await self.wait()


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """A block that ends with ``deadline_exceeded`` after so many seconds; at once where they are 0 or less."""
    with anyio.move_on_after(max(0.0, seconds)) as scope:
        yield
    if scope.cancelled_caught:
        raise refuse("deadline_exceeded", f"the deadline passed during {what}")


class Background(Generic[T]):
    """Work that several callers may await, that outlives them, and that can be stopped."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self._done = anyio.Event()
        self._result: T | None = None
        self._error: Exception | None = None

    def succeed(self, result: T) -> None:
        """It is done."""
        self._result = result
        self._done.set()

    def fail(self, error: Exception) -> None:
        """It ended otherwise; everybody who awaits it gets the error."""
        self._error = error
        self._done.set()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    async def ended(self) -> None:
        """Until it has ended, one way or the other."""
        await self._done.wait()

    async def result(self) -> T:
        """What came of it; awaiting it can be cancelled without stopping it."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result
