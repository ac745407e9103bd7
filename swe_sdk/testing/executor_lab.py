"""Where a check of an executor works: pools, jobs, and a count of what is left of sandboxes."""

from __future__ import annotations

import os
import platform
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.executors.contract import Executor, Job, JobResult, NodeInfo, Pool
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.reaper import reap
from swe_sdk.testing.executor_work import HOLD
from swe_sdk.testing.expect import NotApplicable, require
from swe_sdk.testing.this_machine import is_on_a_command_line

_PROMPT_S = 60.0


class ExecutorCase:
    """An executor under test, and how its workers and nodes are killed. Override :meth:`make`, and what applies."""

    workers = 1
    """How many there are before there are jobs."""
    drivers_share = True
    """Whether equal jobs of two pools run once."""
    grades = True
    """Whether the checks that grade are made: they need the local provider on the nodes."""

    def make(self) -> Executor:
        """The executor: two jobs at a time or more, on workers of this machine, each of which may run one at a time."""
        raise NotImplementedError("override make() to return the executor under test")

    async def kill_worker(self, node: NodeInfo) -> None:
        """Kill the process that carries out jobs there, without a word."""
        if node.host != platform.node() or node.pid == os.getpid():
            raise NotApplicable("jobs run in the process of who asks")
        os.kill(node.pid, signal.SIGKILL)

    async def kill_node(self, node: NodeInfo) -> None:
        """Kill the worker and all that its engine runs on its node."""
        raise NotApplicable("the case does not say how a node dies")

    async def mend(self) -> None:
        """Called after a check that killed something: bring the engine back to what it was."""


class ExecutorLab:
    """One check's workplace."""

    def __init__(self, case: ExecutorCase, scratch: Path) -> None:
        self.case = case
        self.scratch = scratch
        self._words: list[str] = []

    @asynccontextmanager
    async def pool(self, *, workers: int = 1) -> AsyncIterator[Pool]:
        """A pool of the executor under test, once so many workers are ready."""
        async with self.case.make().open() as pool:
            if self.case.workers > 1:
                wanted = min(workers, self.case.workers)
                await self.until(lambda: len(pool.nodes()) >= wanted, f"{wanted} workers did not come")
            yield pool

    async def all_of(
        self, pool: Pool, jobs: Iterable[Job], on_result: Callable[[JobResult], None] = lambda _: None
    ) -> list[JobResult]:
        """The results of jobs that are asked for at once, in the order of the jobs."""
        jobs = list(jobs)
        results: dict[int, JobResult] = {}

        async def one(index: int, job: Job) -> None:
            results[index] = await pool.run(job)
            on_result(results[index])

        async with anyio.create_task_group() as tasks:
            for index, job in enumerate(jobs):
                tasks.start_soon(one, index, job)
        return [results[index] for index in range(len(jobs))]

    def holding(self, seconds: float, **more: Any) -> Job:
        """A job that holds a sandbox for so long."""
        word = f"swe-sdk-held-{secrets.token_hex(6)}"
        self._words.append(word)
        given = {"word": word, "seconds": seconds, "folder": str(self.scratch)}
        return Job(id=word, work=HOLD, input=given, **more)

    def running(self) -> list[int]:
        """For each sandbox that was seen to run its program, the process that holds it."""
        return [int(path.name.partition("-")[0]) for path in self._held()]

    def _held(self) -> list[Path]:
        return [path for path in self.scratch.glob("*-swe-sdk-held-*") if not path.name.startswith(".")]

    async def until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Wait, and fail where it takes too long."""
        with anyio.move_on_after(_PROMPT_S) as scope:
            while not condition():
                await anyio.sleep(0.05)
        require(not scope.cancelled_caught, otherwise)

    async def until_held(self, count: int) -> None:
        """Until so many sandboxes run their programs."""
        await self.until(lambda: len(self.running()) >= count, f"{count} jobs did not come to hold a sandbox")

    async def require_nothing_left(self, *, reaped: bool) -> None:
        """No sandbox and no program of one is left; ``reaped`` = the reaper of each node goes first."""
        states = {path.read_text() for path in self._held()}
        require(states, "no job came to hold a sandbox, so nothing can be said about what is left")
        for state in sorted(states):
            provider = LocalProvider(state)
            try:
                if reaped:
                    await reap(LeaseBook(Path(state) / "leases"), [provider])
                left = await provider.owned()
            finally:
                await provider.aclose()
            require(not left, f"sandboxes are left in {state}: {[box.handle for box in left]}")
        for word in self._words:
            require(not is_on_a_command_line(word), f"the program of the sandbox {word} still runs")
