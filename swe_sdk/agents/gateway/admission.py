"""Calls that may not go on now: held for a checkpoint, until they are released or dropped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import anyio

from swe_sdk.model.record import Record

_END_CAP_S = 30.0
CallState = Literal["held", "queued", "sent", "answered", "delivering"]
"""*held* before it was sent; *queued* for a free turn; *sent* to the endpoint; *answered*, and the answer held back;
*delivering*: the agent has been given the beginning of the answer. All but the last are undelivered."""


class CallView(Record):
    """A call under way."""

    call_id: str
    rollout_id: str
    attempt: int
    route: str
    state: CallState
    seconds: float
    """Since its request had come."""
    held_s: float
    """How much of that it was held."""

    @property
    def is_delivered(self) -> bool:
        """Whether the agent has seen any of the answer: from then on the call is part of its history."""
        return self.state == "delivering"


class Gate:
    """Open or held. Only the event loop of the gateway touches it."""

    def __init__(self) -> None:
        self._opened: anyio.Event | None = None

    @property
    def is_held(self) -> bool:
        """Whether nothing passes."""
        return self._opened is not None

    def hold(self) -> None:
        """Close it; twice is once."""
        self._opened = self._opened or anyio.Event()

    def release(self) -> None:
        """Open it; whoever waits goes on."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.set()

    async def passed(self) -> None:
        """Return once it is open."""
        if self._opened is not None:
            await self._opened.wait()


@dataclass(eq=False)
class OpenCall:
    """A call under way, as the gateway keeps it."""

    call_id: str
    rollout_id: str
    attempt: int
    route: str
    gates: tuple[Gate, ...]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    state: CallState = "queued"
    is_dropped: bool = False
    came_at: float = field(default_factory=time.monotonic)
    held_s: float = 0.0
    _held_since: float | None = None

    @property
    def is_held(self) -> bool:
        """Whether a gate stops it now."""
        return any(gate.is_held for gate in self.gates)

    async def passed(self, state: Literal["held", "answered"]) -> None:
        """Wait until every gate is open, in ``state``; the time is counted as held."""
        if not self.is_held:
            return
        self.state, self._held_since = state, time.monotonic()
        try:
            while self.is_held:
                for gate in self.gates:
                    await gate.passed()
        finally:
            self.held_s, self._held_since = self._held_now(), None

    def _held_now(self) -> float:
        return self.held_s + (time.monotonic() - self._held_since if self._held_since is not None else 0.0)

    def view(self) -> CallView:
        """What it is now."""
        return CallView(
            call_id=self.call_id,
            rollout_id=self.rollout_id,
            attempt=self.attempt,
            route=self.route,
            state=self.state,
            seconds=time.monotonic() - self.came_at,
            held_s=self._held_now(),
        )

    def drop(self) -> bool:
        """Break it off, if nothing of it was delivered; whether that was so."""
        if self.state == "delivering":
            return False
        self.is_dropped = True
        self.scope.cancel()
        return True


class OpenCalls:
    """All calls under way, and a way to wait for them."""

    def __init__(self) -> None:
        self._calls: dict[str, OpenCall] = {}
        self._changed = anyio.Event()

    def add(self, call: OpenCall) -> None:
        """It has come."""
        self._calls[call.call_id] = call
        self.change()

    def remove(self, call: OpenCall) -> None:
        """It has ended."""
        del self._calls[call.call_id]
        self.change()

    def change(self) -> None:
        """Wake who waits."""
        self._changed.set()
        self._changed = anyio.Event()

    def of(self, rollout_id: str | None = None) -> list[OpenCall]:
        """Those of one rollout, or all."""
        return [call for call in self._calls.values() if rollout_id in (None, call.rollout_id)]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is so of the calls."""
        while not holds():
            await self._changed.wait()

    async def quiet(self, rollout_id: str | None, timeout_s: float | None) -> tuple[CallView, ...]:
        """Wait until nothing is being delivered; what still is when the time is over."""
        with anyio.move_on_after(timeout_s):
            while self._delivering(rollout_id):
                await self._changed.wait()
        return tuple(call.view() for call in self._delivering(rollout_id))

    async def end(self, rollout_id: str, attempt: int) -> None:
        """Break off those of an attempt, and wait until what was delivered of them is recorded."""
        with anyio.move_on_after(_END_CAP_S, shield=True):
            while calls := [call for call in self.of(rollout_id) if call.attempt == attempt]:
                for call in calls:
                    call.scope.cancel()
                await self._changed.wait()

    def _delivering(self, rollout_id: str | None) -> list[OpenCall]:
        return [call for call in self.of(rollout_id) if call.state == "delivering"]


def drop_all(calls: Iterable[OpenCall]) -> int:
    """Break off those of which nothing was delivered; how many."""
    return sum(call.drop() for call in calls)
