"""The driver's side of :mod:`swe_sdk.executors.ray.flights`."""

from __future__ import annotations

from typing import Any

import anyio

from swe_sdk.executors.ray.flights import NAME, NAMESPACE, RENEW_EVERY_S, Flights
from swe_sdk.executors.ray.worker import WorkerLost, answered
from swe_sdk.model.ids import new_id

_TRIES = 3
_CALLS_AT_ONCE = 100_000
"""Each job of any driver that waits for an equal one has a call open."""


class Claims:
    """What this driver holds."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._me = new_id("driver")
        self._actor: Any = None

    async def claim(self, key: str) -> str | None:
        """The result of an equal job, or None = run it. Where the actor cannot be had, every job is run."""
        for _ in range(_TRIES):
            try:
                return await self._claimed(key)
            except WorkerLost:  # the driver that had made it is gone
                self._actor = None
        return None

    async def _claimed(self, key: str) -> str | None:
        reply = self._flights().claim.remote(key, self._me)
        try:
            result: str | None = await answered(self._ray, reply)
        except anyio.get_cancelled_exc_class():
            self._ray.cancel(reply)  # else it would take the claim when its turn comes, for nobody
            self.land(key, None)
            raise
        return result

    def land(self, key: str, result: str | None) -> None:
        """A claimed job is over; nobody waits for this to arrive."""
        if self._actor is not None:
            self._actor.land.remote(key, self._me, result)

    async def renew(self) -> None:
        """Give signs of life until cancelled."""
        while True:
            await anyio.sleep(RENEW_EVERY_S)
            if self._actor is not None:
                self._actor.renew.remote(self._me)

    async def leave(self) -> None:
        """Let go of everything."""
        if self._actor is not None:
            with anyio.move_on_after(RENEW_EVERY_S):
                try:
                    await answered(self._ray, self._actor.leave.remote(self._me))
                except WorkerLost:
                    pass

    def _flights(self) -> Any:
        if self._actor is None:
            self._actor = (
                self._ray.remote(Flights)
                .options(
                    name=NAME,
                    namespace=NAMESPACE,
                    get_if_exists=True,
                    num_cpus=0,
                    max_concurrency=_CALLS_AT_ONCE,
                    max_restarts=0,
                    max_task_retries=0,
                )
                .remote()
            )
        return self._actor
