"""An executor that loses workers on purpose: before a job began, or when it was over and nobody heard of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from swe_sdk.executors.contract import Job, JobResult, NodeInfo, lost
from swe_sdk.executors.local import LocalExecutor, LocalPool


class LossyExecutor:
    """Loses ``times`` jobs, each once, and carries out all others in this process."""

    name = "lossy"

    def __init__(self, times: int, *, when: Literal["before", "after"] = "before") -> None:
        self.left, self.when = times, when
        self.jobs: list[Job] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[LossyPool]:
        async with LocalExecutor(slots=2).open() as pool:
            yield LossyPool(self, pool)


class LossyPool:
    def __init__(self, settings: LossyExecutor, pool: LocalPool) -> None:
        self._settings, self._pool = settings, pool

    async def run(self, job: Job) -> JobResult:
        is_lost = self._settings.left > 0 and job.id not in {each.id for each in self._settings.jobs}
        self._settings.jobs.append(job)
        self._settings.left -= is_lost
        if is_lost and self._settings.when == "before":
            return lost(job, "it was switched off", node="somewhere")
        result = await self._pool.run(job)
        return lost(job, "it was switched off", node="somewhere") if is_lost else result

    async def everywhere(self, job: Job, *, later_too: bool = False) -> None:
        await self._pool.everywhere(job, later_too=later_too)

    async def collect(self, node: str, folder: str, below: Sequence[str]) -> None:
        pass

    def nodes(self) -> list[NodeInfo]:
        return self._pool.nodes()

    @property
    def shares_files(self) -> bool:
        return True
