"""Jobs in this process: the executor inside all others."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio
from pydantic import Field

from swe_sdk import __version__, paths
from swe_sdk.executors.contract import Job, JobResult, NodeInfo, unplaced
from swe_sdk.executors.one_loop import OfOneLoop
from swe_sdk.executors.place import Place, open_place
from swe_sdk.executors.work import carry_out
from swe_sdk.grading.batch import default_limit
from swe_sdk.grading.single_flight import FlightCancelled, SingleFlight
from swe_sdk.model.record import Record
from swe_sdk.sandbox.node import node_id

_log = logging.getLogger(__name__)


class LocalExecutor(Record):
    """``slots`` jobs at a time in the event loop of the caller; None = one a processor, at most 8."""

    slots: int | None = Field(default=None, ge=1)

    @property
    def name(self) -> str:
        """``local``."""
        return "local"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[LocalPool]:
        """A pool of this process."""
        async with open_place(platform.node()) as place:
            pool = LocalPool(place, self.slots or default_limit())
            try:
                yield pool
            finally:
                pool.is_open = False


class LocalPool(OfOneLoop):
    """Carries out jobs at one place; implements :class:`swe_sdk.executors.contract.Pool`."""

    def __init__(self, place: Place, slots: int) -> None:
        super().__init__()
        self._place = place
        self._slots = slots
        self._limiter = anyio.CapacityLimiter(slots)
        self._flights: SingleFlight[JobResult] = SingleFlight()

    async def run(self, job: Job) -> JobResult:
        """The result of a job, or that of an equal one under way."""
        if job.near is not None and job.near.node != node_id():
            return unplaced(job, f"the node {job.near.node} is another one")
        if job.key is None:
            return await self._carry_out(job)
        try:
            result = await self._flights.run(job.key, partial(self._carry_out, job))
        except FlightCancelled:
            return await self._carry_out(job)
        return result.model_copy(update={"id": job.id})

    async def everywhere(self, job: Job, *, later_too: bool = False) -> None:
        """Once, here, and apart from the slots of jobs."""
        told(await carry_out(job, self._place))

    async def collect(self, node: str, folder: str, below: Sequence[str]) -> None:
        """Nothing: it is here."""

    def nodes(self) -> list[NodeInfo]:
        """This process."""
        return [this_node(self._place.node, self._slots)]

    @property
    def shares_files(self) -> bool:
        """Always."""
        return True

    async def _carry_out(self, job: Job) -> JobResult:
        async with self._limiter:
            return await carry_out(job, self._place)


def this_node(node: str, slots: int) -> NodeInfo:
    """What this process is to others."""
    return NodeInfo(
        node=node,
        host=platform.node(),
        pid=os.getpid(),
        state=str(paths.state_dir()),
        id=node_id(),
        slots=slots,
        sdk_version=__version__,
    )


def told(result: JobResult) -> None:
    """Log a job of all nodes that failed: others will meet the same, and say so."""
    if result.state != "done":
        _log.warning("%s on %s: %s", result.id, result.node, result.error and result.error.message)
