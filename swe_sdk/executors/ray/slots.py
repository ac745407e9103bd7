"""Who gets the next free slot of which worker. Pure: it knows neither Ray nor what a job is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

W = TypeVar("W")


class NoWorkers(Exception):
    """There is no worker, and none is expected any more; the message says why."""


class Slots(Generic[W]):
    """Free slots by worker (any hashable), given first come, first served, from the worker that has most of them."""

    def __init__(self) -> None:
        self._free: dict[W, int] = {}
        self._waiting: OrderedDict[int, _Waiter[W]] = OrderedDict()
        self._serial = 0
        self._hopeless: str | None = None

    @property
    def workers(self) -> list[W]:
        """All that there are."""
        return list(self._free)

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._waiting)

    def add(self, worker: W, slots: int) -> None:
        """A worker has come."""
        self._hopeless = None
        self._free[worker] = slots
        self._hand_out()

    def remove(self, worker: W) -> None:
        """A worker is gone, its slots with it. Again is no harm."""
        self._free.pop(worker, None)

    def give_up(self, why: str) -> None:
        """Nobody will come: who waits, and who asks from now on, is told so, until a worker comes after all."""
        self._hopeless = why
        for waiter in self._waiting.values():
            waiter.ready.set()
        self._waiting.clear()

    async def acquire(self, fits: Callable[[W], bool] | None = None) -> W:
        """A slot of some worker (that ``fits``, if that is given: who fits nobody holds up nobody).

        Raises ``NoWorkers``.
        """
        if self._hopeless is not None:
            raise NoWorkers(self._hopeless)
        self._serial += 1
        number, waiter = self._serial, _Waiter(fits)
        self._waiting[number] = waiter
        self._hand_out()
        try:
            await waiter.ready.wait()
        except BaseException:
            self._waiting.pop(number, None)
            for worker in waiter.worker:
                self.release(worker)
            raise
        if not waiter.worker:
            raise NoWorkers(self._hopeless or "the workers are gone")
        return waiter.worker[0]

    def release(self, worker: W) -> None:
        """A slot is free again; nothing where its worker is gone."""
        if worker in self._free:
            self._free[worker] += 1
            self._hand_out()

    def _hand_out(self) -> None:
        while (found := self._first_match()) is not None:
            number, worker = found
            self._free[worker] -= 1
            waiter = self._waiting.pop(number)
            waiter.worker.append(worker)
            waiter.ready.set()

    def _first_match(self) -> tuple[int, W] | None:
        """Who has waited longest of those for whom there is a slot, and whose."""
        free = sorted((worker for worker in self._free if self._free[worker] > 0), key=lambda each: -self._free[each])
        for number, waiter in self._waiting.items() if free else ():
            for worker in free:
                if waiter.fits is None or waiter.fits(worker):
                    return number, worker
        return None


class _Waiter(Generic[W]):
    def __init__(self, fits: Callable[[W], bool] | None) -> None:
        self.fits = fits
        self.ready = anyio.Event()
        self.worker: list[W] = []
