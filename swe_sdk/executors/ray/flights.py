"""Equal jobs of several drivers of a cluster run once: whoever claims a key first runs it, the others wait for that.

One actor for the cluster. It dies with the driver that made it, and the next claim makes another: claims are lost then,
so that a job may run twice, which is a waste and no error. A holder that gives no sign of life for half a minute is
taken for dead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import anyio

NAME, NAMESPACE = "swe_sdk_flights", "swe_sdk"
RENEW_EVERY_S = 5.0
_TTL_S = 30.0


@dataclass
class _Flight:
    holder: str
    landed: anyio.Event = field(default_factory=anyio.Event)
    result: str | None = None


class Flights:
    """The actor's class; all methods run in one event loop. Results are as their holders give them."""

    def __init__(self, ttl_s: float = _TTL_S) -> None:
        self._ttl_s = ttl_s
        self._flights: dict[str, _Flight] = {}
        self._seen: dict[str, float] = {}

    async def claim(self, key: str, holder: str) -> str | None:
        """The result of an equal job that is under way elsewhere, once it is there; None = it is yours to run."""
        self._seen[holder] = time.monotonic()
        while True:
            flight = self._flights.get(key)
            if flight is None or not self._lives(flight.holder):
                self._flights[key] = _Flight(holder)
                if flight is not None:
                    flight.landed.set()
                return None
            with anyio.move_on_after(self._ttl_s / 4):
                await flight.landed.wait()
            if flight.result is not None:
                return flight.result

    async def land(self, key: str, holder: str, result: str | None) -> None:
        """The job is over; without a result somebody else who waits may run it."""
        flight = self._flights.get(key)
        if flight is not None and flight.holder == holder:
            del self._flights[key]
            flight.result = result
            flight.landed.set()

    async def renew(self, holder: str) -> None:
        """A sign of life."""
        self._seen[holder] = time.monotonic()

    async def leave(self, holder: str) -> None:
        """The holder ends: what it holds is free."""
        self._seen.pop(holder, None)
        for key in [key for key, flight in self._flights.items() if flight.holder == holder]:
            await self.land(key, holder, None)

    def _lives(self, holder: str) -> bool:
        return time.monotonic() - self._seen.get(holder, float("-inf")) < self._ttl_s
