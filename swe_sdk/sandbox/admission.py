"""How much of an engine is used at once: creates, commands and live boxes, each with a limit of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
from pydantic import Field

from swe_sdk.model.record import Record


class AdmissionLimits(Record):
    """None = no limit."""

    creates: int | None = Field(default=8, gt=0)
    """Boxes being made at once."""
    execs: int | None = Field(default=64, gt=0)
    """Commands running at once."""
    boxes: int | None = Field(default=None, gt=0)
    """Boxes alive at once. Who holds one and waits for a second can wait for ever where this is small."""


class HeldSlot(Record):
    """One that is taken."""

    what: str
    since_s: float
    """Seconds ago."""


class GateView(Record):
    """One limit, as it is used just now."""

    limit: int | None
    held: tuple[HeldSlot, ...]
    """The oldest first."""
    waiting: int


class AdmissionView(Record):
    """All limits, as they are used just now."""

    creates: GateView
    execs: GateView
    boxes: GateView


class Slot:
    """A place that is held until it is released."""

    def __init__(self, gate: Gate, what: str) -> None:
        self._gate = gate
        self.what = what
        self.since = 0.0

    def release(self) -> None:
        """Give it back, from any thread; the first that waits gets it. May be called again."""
        self._gate.take_back(self)


class _Waiter:
    """Somebody who waits in an event loop of whatever thread."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.event = anyio.Event()
        self._loop = asyncio.get_running_loop()

    def wake(self) -> bool:
        """False where that loop is closed, so that nobody waits any more."""
        try:
            self._loop.call_soon_threadsafe(self.event.set)
        except RuntimeError:
            return False
        return True


class Gate:
    """Lets so many in at once (None: all), first come, first served, whatever loop or thread they come from."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.empty()
        _gates.add(self)

    def empty(self) -> None:
        """Forget all who are in and who wait: in a forked child they are the parent's."""
        self._lock = threading.RLock()  # the collector may end a forgotten waiter while this thread holds it
        self._held: dict[Slot, None] = {}
        self._queue: deque[_Waiter] = deque()

    async def enter(self, what: str = "") -> Slot:
        """Wait for a place; cancelling gives up, and never takes a place along."""
        slot = Slot(self, what)
        with self._lock:
            if not self._queue and self._has_room:
                self._admit(slot)
                return slot
            waiter = _Waiter(slot)
            self._queue.append(waiter)
        try:
            await waiter.event.wait()
        except BaseException:
            self._give_up(waiter)
            raise
        return slot

    def take_back(self, slot: Slot) -> None:
        """See :meth:`Slot.release`."""
        with self._lock:
            self._held.pop(slot, None)
            self._let_in()

    def view(self) -> GateView:
        """For display."""
        now = time.monotonic()
        with self._lock:
            held = tuple(HeldSlot(what=slot.what, since_s=now - slot.since) for slot in list(self._held))
            return GateView(limit=self.limit, held=held, waiting=len(self._queue))

    @property
    def _has_room(self) -> bool:
        return self.limit is None or len(self._held) < self.limit

    def _admit(self, slot: Slot) -> None:
        slot.since = time.monotonic()
        self._held[slot] = None

    def _let_in(self) -> None:
        while self._queue and self._has_room:
            waiter = self._queue.popleft()
            self._admit(waiter.slot)
            if not waiter.wake():
                self._held.pop(waiter.slot, None)

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock, suppress(ValueError):
            self._queue.remove(waiter)
        waiter.slot.release()  # it may have been let in just before


class Admission:
    """Limits for one engine, for all event loops and threads of this process; first come, first served."""

    def __init__(self, limits: AdmissionLimits | None = None) -> None:
        self.limits = limits or AdmissionLimits()
        self._creates = Gate(self.limits.creates)
        self._execs = Gate(self.limits.execs)
        self._boxes = Gate(self.limits.boxes)

    def create(self, what: str = "") -> AbstractAsyncContextManager[None]:
        """Around making a box, and nothing more: the box is another matter. ``what`` is for display, as below."""
        return _within(self._creates, what)

    def exec(self, what: str = "") -> AbstractAsyncContextManager[None]:
        """Around one command."""
        return _within(self._execs, what)

    async def box(self, what: str = "") -> Slot:
        """A place for a live box; release it when the box is gone."""
        return await self._boxes.enter(what)

    def view(self) -> AdmissionView:
        """For display."""
        return AdmissionView(creates=self._creates.view(), execs=self._execs.view(), boxes=self._boxes.view())


@asynccontextmanager
async def _within(gate: Gate, what: str) -> AsyncIterator[None]:
    slot = await gate.enter(what)
    try:
        yield
    finally:
        slot.release()


_gates: weakref.WeakSet[Gate] = weakref.WeakSet()


def _after_fork() -> None:
    for gate in _gates:
        gate.empty()


os.register_at_fork(after_in_child=_after_fork)
