"""A shard: one Slurm job that carries out many of ours, each result on disk as soon as it is there."""

from __future__ import annotations

import contextlib
import platform
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from swe_sdk.executors.contract import Job, JobResult, lost
from swe_sdk.executors.local import LocalPool, this_node
from swe_sdk.executors.slurm.folder import BEAT_EVERY_S, ShardFolder, ShardResult
from swe_sdk.executors.worker import open_worker
from swe_sdk.grading.batch import default_limit
from swe_sdk.sandbox.locks import file_lock

_LOOK_EVERY_S = 0.5
_END = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2)
"""Told to end: by scancel, by a key, and by submitit before the time is up or the job is preempted."""


class Shard:
    """What submitit pickles and calls. Called again after a preemption it does what is left; while another process
    still does so (Slurm may take a node for dead that is not), it waits for the end of that one."""

    def __init__(self, path: str, slots: int | None) -> None:
        self.path = path
        self.slots = slots

    def __call__(self) -> int:
        """Carry out what has no result yet; returns how many jobs that were."""
        requeue = signal.getsignal(signal.SIGUSR2)
        carrier = _Carrier(ShardFolder(Path(self.path)), self.slots or default_limit())
        count = anyio.run(carrier.main)
        if carrier.told == signal.SIGUSR2 and callable(requeue):
            requeue(signal.SIGUSR2, None)  # submitit's: asks Slurm to start this again, and ends the process
        return count

    def checkpoint(self) -> Any:
        """For submitit: what to start again."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


class _Carrier:
    def __init__(self, folder: ShardFolder, slots: int) -> None:
        self.told: int | None = None
        """The signal by which the shard was told to end."""
        self._folder, self._slots = folder, slots
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._asked: set[str] = set()

    async def main(self) -> int:
        left: dict[int, Job] = {}
        async with anyio.create_task_group() as watch:
            await watch.start(self._listen, watch.cancel_scope)
            async with file_lock(self._folder.holder, poll_s=_LOOK_EVERY_S):  # of two starts at once, one does them
                left = self._left()
                if left:
                    with self._beating():
                        watch.start_soon(self._look_for_cancels)
                        await self._carry_out(left)
            watch.cancel_scope.cancel()
        return len(left)

    def _left(self) -> dict[int, Job]:
        over = {line.number for line in self._folder.read()[0]}
        return {number: job for number, job in enumerate(self._folder.jobs()) if number not in over}

    async def _carry_out(self, left: dict[int, Job]) -> None:
        async with open_worker(platform.node(), self._slots) as pool:
            for job in self._folder.first():
                await pool.everywhere(job)
            async with anyio.create_task_group() as tasks:
                for number, job in left.items():
                    tasks.start_soon(self._one, pool, number, job)

    async def _one(self, pool: LocalPool, number: int, job: Job) -> None:
        with anyio.CancelScope() as scope:
            self._scopes[number] = scope
            if {str(number), "all"} & self._asked:
                scope.cancel()
            result: JobResult = await pool.run(job)
        del self._scopes[number]
        if scope.cancelled_caught:
            result = lost(job, "the job was cancelled", node=platform.node())
        await to_thread.run_sync(self._folder.append, ShardResult(number=number, result=result))

    async def _listen(self, scope: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
        """End in order when told to: what has no result by then is lost, or done by the next start."""
        with anyio.open_signal_receiver(*_END) as signals:
            task_status.started()
            async for number in signals:
                self.told = number
                scope.cancel()

    async def _look_for_cancels(self) -> None:
        while True:
            self._asked = await to_thread.run_sync(self._folder.asked_to_cancel)
            for number, scope in list(self._scopes.items()):
                if {str(number), "all"} & self._asked:
                    scope.cancel()
            await anyio.sleep(_LOOK_EVERY_S)

    @contextlib.contextmanager
    def _beating(self) -> Iterator[None]:
        """Signs of life from a thread: a busy event loop is no dead shard."""
        ended = threading.Event()
        self._folder.begin(this_node(platform.node(), self._slots))

        def beat() -> None:
            while not ended.wait(BEAT_EVERY_S):
                with contextlib.suppress(OSError):  # the file server is away; the next beat may get through
                    self._folder.beat()

        thread = threading.Thread(target=beat, name="swe_sdk shard", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
