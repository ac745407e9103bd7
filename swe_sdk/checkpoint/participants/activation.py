"""One activation of an agent's session: the stretch of work that answers one call, and that parks at its boundaries."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol

import anyio

from swe_sdk.checkpoint.waiting import Changes

State = Literal["running", "at_boundary"]
Work = Callable[["Activation"], Awaitable[Any]]


class Slot(Protocol):
    """What limits an agent's concurrency: a semaphore or a capacity limiter of anyio."""

    async def acquire(self) -> None:
        """Wait for a slot."""

    def release(self) -> None:
        """Give it back."""


class Host(Protocol):
    """What an activation asks of its participant."""

    changes: Changes

    @property
    def is_closed(self) -> bool:
        """Whether a checkpoint is open."""

    async def until_open(self) -> None:
        """Wait until none is."""


class Activation:
    """What an agent's work gets; made by :meth:`.agent.AgentParticipant.activate`."""

    def __init__(self, session_id: str, index: int, host: Host, *, saved: Any, is_restart: bool) -> None:
        self.session_id = session_id
        self.index = index
        self.state: State = "at_boundary"
        self.is_restart = is_restart
        self.scope = anyio.CancelScope()
        self._host = host
        self._snapshot: Callable[[], Any] | Any = saved
        self._undelivered = saved

    def take_continuation(self) -> Any:
        """What a restored activation goes on from: the boundary recorded last; None for a fresh one, and the second
        time."""
        continuation, self._undelivered = self._undelivered, None
        return copy.deepcopy(continuation)

    @property
    def park_requested(self) -> bool:
        """Whether to stop at the next boundary; never for a restart, which no checkpoint holds."""
        return self._host.is_closed and not self.is_restart

    async def wait_park_requested(self) -> None:
        """Until :attr:`park_requested`."""
        await self._host.changes.until(lambda: self.park_requested)

    async def boundary(self, snapshot: Callable[[], Any] | Any) -> None:
        """The work can go on from here. While a checkpoint is open, park.

        ``snapshot`` is plain data, or a function that gives it, which is called when a checkpoint is written.
        """
        self._snapshot = snapshot
        with _At(self):
            await anyio.lowlevel.checkpoint()
            await self._pass()

    @asynccontextmanager
    async def queued(self, slot: Slot) -> AsyncIterator[None]:
        """A block that runs within a slot of the agent's own. Waiting for it counts as parked, and the block begins
        only while no checkpoint is open; the slot is given back however the block ends."""
        acquired = False
        try:
            with _At(self):
                await slot.acquire()
                acquired = True
                await self._pass()
            yield
        finally:
            if acquired:
                slot.release()

    @asynccontextmanager
    async def awaiting_model(self) -> AsyncIterator[None]:
        """A block that waits for the model. It counts as parked at the boundary recorded last, so record one just
        before; a reply that comes while a checkpoint is open is held until it is over. Where replies come through other
        processes, record another boundary, with the reply in it, before the block ends."""
        with _At(self):
            try:
                yield
            finally:  # an error is a reply as well
                await self._pass()

    def snapshot(self) -> Any:
        """What a checkpoint holds of it now; what it was restored from, until it records a boundary of its own."""
        value = self._snapshot() if callable(self._snapshot) else self._snapshot
        return copy.deepcopy(value)

    async def enter(self) -> None:
        """Begin to work, once no checkpoint is open."""
        await self._pass()
        self._set("running")

    async def _pass(self) -> None:
        """Wait for the end of an open checkpoint. Where none is open nothing can come between: a reply that the ledger
        has is never held, since its call would be made again after a restore."""
        if self.park_requested:
            await self._host.until_open()

    def _set(self, state: State) -> None:
        self.state = state
        self._host.changes.notify()


class _At:
    """The activation is at a boundary within a block."""

    def __init__(self, activation: Activation) -> None:
        self._activation = activation
        self._before = activation.state

    def __enter__(self) -> None:
        self._activation._set("at_boundary")

    def __exit__(self, *_exception: object) -> None:
        self._activation._set(self._before)
