"""One execution for all who ask for the same thing at the same time.

The work belongs to none of its callers: each of them may be cancelled, and the others still get the result. A task
group cannot give that, for it ties a child to the one task that opened it. So a flight is owned by *count*: it runs in
a task of its own as long as at least one caller waits for it. The last one to leave cancels it and waits for its end,
so that, as with a task group, no work outlives everybody who wanted it. This is the only place of the package that
starts a task outside a task group.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")

_END_CAP_S = 120.0
"""How long the last caller waits for cancelled work to clean up; the work has caps of its own, far below this."""


class FlightCancelled(RuntimeError):
    """The work was cancelled from outside (its event loop is shutting down), not by its callers."""


class _Flight(Generic[T]):
    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self.waiters = 0
        self.is_kept = False
        self.done = anyio.Event()
        self.scope = anyio.CancelScope()
        self.task: asyncio.Task[None] | None = None
        self._value: list[T] = []
        self._error: Exception | None = None

    async def fly(self) -> None:
        try:
            with self.scope:
                self._value.append(await self._work())
        except Exception as error:  # noqa: BLE001  # kept, and raised in each caller
            self._error = error
        finally:
            self.done.set()

    @property
    def has_value(self) -> bool:
        return bool(self._value)

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        if not self._value:
            raise FlightCancelled("the shared work was cancelled from outside")
        return self._value[0]


class SingleFlight(Generic[T]):
    """Coalesces equal work within one event loop (asyncio).

    Results are forgotten as soon as their callers have them, but for those that somebody asked for with
    ``reuse=True``: of them the ``keep`` most recently used that ``keepable`` accepts can be had again. Failures are
    never kept.
    """

    def __init__(self, *, keep: int = 0, keepable: Callable[[T], bool] = lambda _: True) -> None:
        self._keep = keep
        self._keepable = keepable
        self._flights: dict[str, _Flight[T]] = {}
        self._kept: OrderedDict[str, T] = OrderedDict()

    def __len__(self) -> int:
        """How many executions are under way."""
        return len(self._flights)

    async def run(self, key: str, work: Callable[[], Awaitable[T]], *, reuse: bool = False) -> T:
        """The result of ``work()``, executed once for all callers of one ``key`` that are here at the same time.

        Raises what the work raises, or :class:`FlightCancelled`.
        """
        if reuse and key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        flight = self._flights.get(key) or self._start(key, work)
        flight.waiters += 1
        flight.is_kept |= reuse
        try:
            await flight.done.wait()
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.done.is_set():
                await self._abandon(key, flight)
        return flight.result()

    def _start(self, key: str, work: Callable[[], Awaitable[T]]) -> _Flight[T]:
        flight = self._flights[key] = _Flight(work)
        flight.task = asyncio.create_task(self._host(key, flight))
        return flight

    async def _host(self, key: str, flight: _Flight[T]) -> None:
        try:
            await flight.fly()
        finally:
            self._forget(key, flight)
        self._remember(key, flight)

    async def _abandon(self, key: str, flight: _Flight[T]) -> None:
        """Cancel work that nobody waits for any more; a newcomer meanwhile starts afresh."""
        self._forget(key, flight)
        flight.scope.cancel()
        with anyio.move_on_after(_END_CAP_S, shield=True):
            await flight.done.wait()

    def _forget(self, key: str, flight: _Flight[T]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _remember(self, key: str, flight: _Flight[T]) -> None:
        if flight.is_kept and flight.has_value and self._keepable(flight.result()):
            self._kept[key] = flight.result()
            while len(self._kept) > self._keep:
                self._kept.popitem(last=False)
