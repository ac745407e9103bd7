"""Jobs on a cluster, as their driver sees it: workers that come and go, one actor each, and slots on them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.errors import TransferFailed
from swe_sdk.executors.contract import Job, JobResult, Near, NodeInfo, lost, unplaced
from swe_sdk.executors.mirror import bring
from swe_sdk.executors.one_loop import OfOneLoop
from swe_sdk.executors.ray.claims import Claims
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.ray.fleet import Fleet
from swe_sdk.executors.ray.slots import NoWorkers
from swe_sdk.executors.ray.worker import RayWorker, WorkerLost
from swe_sdk.grading.single_flight import FlightCancelled, SingleFlight

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_pool(settings: RayExecutor, ray: Any) -> AsyncIterator[RayPool]:
    """A pool on the cluster that this process has joined."""
    async with anyio.create_task_group() as tasks:
        fleet, claims = Fleet(settings, ray), Claims(ray)
        tasks.start_soon(fleet.watch)
        tasks.start_soon(claims.renew)
        pool = RayPool(settings, fleet, claims)
        try:
            yield pool
        finally:
            pool.is_open = False
            with anyio.CancelScope(shield=True):
                tasks.cancel_scope.cancel()
                await claims.leave()
                await fleet.stop()


class RayPool(OfOneLoop):
    """Implements :class:`swe_sdk.executors.contract.Pool`."""

    def __init__(self, settings: RayExecutor, fleet: Fleet, claims: Claims) -> None:
        super().__init__()
        self._settings = settings
        self._fleet = fleet
        self._claims = claims
        self._flights: SingleFlight[JobResult] = SingleFlight()

    async def run(self, job: Job) -> JobResult:
        """The result of a job, or that of an equal one under way, be it another driver's."""
        if job.key is None:
            return await self._placed(job)
        try:
            result = await self._flights.run(job.key, partial(self._claimed, job, job.key))
        except FlightCancelled:
            return await self._placed(job)
        return result.model_copy(update={"id": job.id})

    async def everywhere(self, job: Job, *, later_too: bool = False) -> None:
        """On every worker there is and, with ``later_too``, on each that comes, before it gets jobs."""
        await self._fleet.everywhere(job, later_too=later_too)

    async def collect(self, node: str, folder: str, below: Sequence[str]) -> None:
        """Copy what a node has written, where the file system is not shared."""
        if self._settings.shared:
            return
        worker = self._fleet.worker_of(node)
        if worker is None:
            raise TransferFailed(f"what the node {node} has written cannot be copied: it is gone")
        try:
            theirs = await worker.listing(folder, below)
            await bring(theirs, Path(folder), partial(worker.piece, folder))
        except WorkerLost as error:
            raise TransferFailed(f"what the node {node} has written could not be copied: {error}") from error

    def nodes(self) -> list[NodeInfo]:
        """The workers that are ready."""
        return [worker.info for worker in self._fleet.slots.workers]

    @property
    def shares_files(self) -> bool:
        """As the settings say."""
        return self._settings.shared

    async def _claimed(self, job: Job, key: str) -> JobResult:
        theirs = await self._claims.claim(key)
        if theirs is not None:
            return JobResult.model_validate_json(theirs)
        result: JobResult | None = None
        try:
            result = await self._placed(job)
            return result
        finally:
            is_good = result is not None and result.state == "done"
            self._claims.land(key, result.model_dump_json() if result is not None and is_good else None)

    async def _placed(self, job: Job) -> JobResult:
        """Run it on whoever has a free slot first, or where it is to run.

        A node that cannot make sandboxes is left alone from then on, where there are others: it is done with each job
        at once, and would take them all.
        """
        while True:
            try:
                worker = await self._seat(job.near)
            except NoWorkers as error:
                return lost(job, str(error))
            except TimeoutError as error:
                return unplaced(job, str(error))
            try:
                result = await self._run_on(worker, job)
            finally:
                self._fleet.slots.release(worker)
            why = result.error
            if why is None or why.kind != "provider_unavailable" or not self._fleet.can_spare(worker, why.message):
                return result

    async def _seat(self, near: Near | None) -> RayWorker:
        """A slot. Raises ``NoWorkers``, and ``TimeoutError`` where there was none near enough in time."""
        if near is None:
            return await self._fleet.slots.acquire()
        with anyio.move_on_after(near.wait_s):
            return await self._fleet.slots.acquire(lambda worker: worker.info.id == near.node)
        is_there = any(worker.info.id == near.node for worker in self._fleet.slots.workers)
        problem = "had no free place" if is_there else "was not there"
        raise TimeoutError(f"the node {near.node} {problem} within {near.wait_s:g} s")

    async def _run_on(self, worker: RayWorker, job: Job) -> JobResult:
        began = anyio.current_time()
        try:
            return await worker.run(job)
        except WorkerLost as error:
            self._fleet.lost(worker, str(error))
            seconds = anyio.current_time() - began
            return lost(job, str(error), node=worker.info.node, seconds=seconds)
