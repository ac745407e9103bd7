"""What the driver knows of its shards, and which jobs it waits for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from swe_sdk.executors.contract import Job, JobResult, lost
from swe_sdk.executors.slurm.folder import SILENT_S, ShardFolder, ShardResult
from swe_sdk.model.policy import FailureKind

_QUEUED = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SUSPENDED", "RESIZING")


class Ticket:
    """A job that somebody waits for."""

    def __init__(self, key: str, job: Job) -> None:
        self.key, self.job = key, job
        self.waiters = 0
        self.shard: OpenShard | None = None
        self.number = 0
        """In its shard."""
        self.result: JobResult | None = None
        self.ready = anyio.Event()

    def resolve(self, result: JobResult) -> None:
        """It is over."""
        if self.result is None:
            self.result = result
            self.ready.set()


class OpenShard:
    """A shard from which results are expected. ``handle`` is submitit's; None = another driver's."""

    def __init__(self, folder: ShardFolder, jobs: list[Job], handle: Any = None) -> None:
        self.folder, self.jobs, self.handle = folder, jobs, handle
        self.tickets: dict[int, Ticket] = {}
        """Those that somebody here waits for, by number."""
        self.results: dict[int, JobResult] = {}
        self.over_for = 0
        """How often in a row it was found over: a file server may be late to show its last results."""
        self._offset = 0

    @property
    def is_complete(self) -> bool:
        """Whether every job has a result."""
        return len(self.results) >= len(self.jobs)

    def read(self) -> list[ShardResult]:
        """What is new; blocks, and is called by one thread at a time."""
        lines, self._offset = self.folder.read(self._offset)
        return lines

    def take(self, lines: list[ShardResult]) -> None:
        """Tell who waits."""
        for line in lines:
            self.results[line.number] = line.result
            ticket = self.tickets.pop(line.number, None)
            if ticket is not None:
                ticket.resolve(line.result)

    def is_over(self, now: float) -> bool:
        """Whether no process works on it any more, and none is going to; blocks. ``now`` by the file system."""
        silent = now - self.folder.last_sign > SILENT_S
        if self.handle is None:
            return silent or self.is_complete
        if self.handle.done():
            return True
        return silent and self.folder.node is not None and self.handle.state not in _QUEUED

    def lose(self, why: str, kind: FailureKind = "lost_worker") -> None:
        """Whoever still waits for it waits in vain."""
        node = self.folder.node
        for ticket in self.tickets.values():
            ticket.resolve(lost(ticket.job, why, kind=kind, node=node.node if node else ""))
        self.tickets.clear()

    def end(self) -> None:
        """Have Slurm end it; blocks."""
        if self.handle is not None and not self.handle.done():
            self.handle.cancel(check=False)


def dealt(tickets: list[Ticket], shards: int) -> list[list[Ticket]]:
    """Tickets dealt out to so many shards at most, like cards, so that long and short jobs mix."""
    count = min(shards, len(tickets))
    return [tickets[first::count] for first in range(count)]


def key_of(path: Path, number: int, job: Job) -> str:
    """Of a job in a shard: its own, or one that no other has."""
    return job.key or f"{path.name}/{number}"
