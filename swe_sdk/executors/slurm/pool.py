"""Jobs on Slurm, as their driver sees it: gathered into arrays, and their results read from files."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from swe_sdk.executors.contract import Job, JobResult, NodeInfo, lost
from swe_sdk.executors.one_loop import CLOSED, OfOneLoop
from swe_sdk.executors.slurm.executor import SlurmExecutor
from swe_sdk.executors.slurm.folder import ShardFolder, ShardResult, shard_folders, time_of
from swe_sdk.executors.slurm.shard import Shard
from swe_sdk.executors.slurm.state import OpenShard, Ticket, dealt, key_of
from swe_sdk.grading.classify import classify
from swe_sdk.model.ids import new_id
from swe_sdk.model.policy import FailureKind
from swe_sdk.sandbox.locks import file_lock

_END_CAP_S = 30.0
_LOST: FailureKind = "lost_worker"
_SURE = 2
"""How often in a row a shard must be found over before its jobs are lost."""
_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_pool(settings: SlurmExecutor, folder: Path, submitter: Any) -> AsyncIterator[SlurmPool]:
    """A pool whose shards end with the block."""
    pool = SlurmPool(settings, folder, submitter)
    await pool.find_shards()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.submit_what_comes)
        tasks.start_soon(pool.look_for_results)
        try:
            yield pool
        finally:
            pool.is_open = False
            with anyio.CancelScope(shield=True):
                await pool.end()
                tasks.cancel_scope.cancel()


class SlurmPool(OfOneLoop):
    """Implements :class:`swe_sdk.executors.contract.Pool`."""

    def __init__(self, settings: SlurmExecutor, folder: Path, submitter: Any) -> None:
        super().__init__()
        self._settings, self._folder, self._submitter = settings, folder, submitter
        self._shards: list[OpenShard] = []
        self._seen: set[str] = set()
        self._known: dict[str, JobResult] = {}
        self._under_way: dict[str, tuple[OpenShard, int]] = {}
        self._tickets: dict[str, Ticket] = {}
        self._pending: list[Ticket] = []
        self._wanted = anyio.Event()
        self._looking = anyio.Lock()
        self._first: list[Job] = []

    # -- for callers -------------------------------------------------------------------------------------------------

    async def run(self, job: Job) -> JobResult:
        """The result of a job: of this time, or a good one that the folder has of an equal one."""
        if not self.is_open:
            return lost(job, CLOSED)
        ticket = self._ticket(job)
        ticket.waiters += 1
        try:
            await ticket.ready.wait()
        finally:
            ticket.waiters -= 1
            if not ticket.ready.is_set() and not ticket.waiters:
                with anyio.move_on_after(self._settings.drain_s, shield=True):
                    await self._cancel(ticket)
        assert ticket.result is not None
        return ticket.result.model_copy(update={"id": job.id})

    async def everywhere(self, job: Job, *, later_too: bool = False) -> None:
        """With ``later_too``, each shard that is made from now on begins with it; those there are need nothing."""
        if later_too:
            self._first.append(job)

    async def collect(self, node: str, folder: str, below: Sequence[str]) -> None:
        """Nothing: the file system is shared."""

    def nodes(self) -> list[NodeInfo]:
        """The shards that have begun and are not over."""
        return [node for shard in self._shards if not shard.is_complete and (node := shard.folder.node)]

    @property
    def shares_files(self) -> bool:
        """Shards and driver talk through files."""
        return True

    def _ticket(self, job: Job) -> Ticket:
        key = job.key or new_id("job")
        ticket = self._tickets.get(key)
        if ticket is not None and not ticket.ready.is_set():
            return ticket
        ticket = self._tickets[key] = Ticket(key, job)
        if not self._answered(ticket):
            self._pending.append(ticket)
            self._wanted.set()
        return ticket

    def _answered(self, ticket: Ticket) -> bool:
        """Whether the folder has its result, or somebody works on it already."""
        if ticket.key in self._known:
            ticket.resolve(self._known[ticket.key])
            return True
        found = self._under_way.get(ticket.key)
        if found is None or found[1] in found[0].results:
            return False
        ticket.shard, ticket.number = found
        ticket.shard.tickets[ticket.number] = ticket
        return True

    async def _cancel(self, ticket: Ticket) -> None:
        """End a job that nobody waits for; returns when it is over."""
        if ticket.shard is None:
            if ticket in self._pending:
                self._pending.remove(ticket)
                ticket.resolve(lost(ticket.job, "the job was cancelled"))
        else:
            shard = ticket.shard
            await to_thread.run_sync(shard.folder.ask_to_cancel, ticket.number)
            if shard.folder.node is None and not any(each.waiters for each in shard.tickets.values()):
                await to_thread.run_sync(shard.end)  # it waits in Slurm's queue, for nothing
            while not ticket.ready.is_set():  # by ourselves: where all is cancelled, nobody else looks any more
                if not self._looking.locked():  # one look is good for all
                    await self._look()
                await anyio.sleep(self._settings.poll_s)

    # -- shards ------------------------------------------------------------------------------------------------------

    async def find_shards(self) -> None:
        """Take in shards of other drivers, and of those before."""
        for shard in await to_thread.run_sync(self._new_shards):
            self._add(shard)
            self._learn(shard, await to_thread.run_sync(shard.read))

    def _new_shards(self) -> list[OpenShard]:
        new = []
        for folder in shard_folders(self._folder):
            if folder.path.name not in self._seen:
                with suppress(FileNotFoundError):  # its driver has withdrawn it just now
                    new.append(OpenShard(folder, folder.jobs()))
        return new

    def _add(self, shard: OpenShard) -> None:
        self._seen.add(shard.folder.path.name)
        self._shards.append(shard)
        for number, job in enumerate(shard.jobs):
            self._under_way[key_of(shard.folder.path, number, job)] = (shard, number)

    def _learn(self, shard: OpenShard, lines: list[ShardResult]) -> None:
        for line in lines:
            key = shard.jobs[line.number].key
            if key is not None and line.result.state == "done" and line.result.reusable:
                self._known[key] = line.result
        shard.take(lines)

    async def submit_what_comes(self) -> None:
        """Gather jobs into arrays until cancelled."""
        while True:
            await self._wanted.wait()
            count = 0
            while count < len(self._pending):
                count = len(self._pending)
                await anyio.sleep(self._settings.gather_s)
            self._wanted = anyio.Event()
            tickets, self._pending = self._pending, []
            if tickets:
                await self._submit(tickets)

    async def _submit(self, tickets: list[Ticket]) -> None:
        made: list[OpenShard] = []
        problem, kind = "its driver was stopped", _LOST
        try:
            async with file_lock(self._folder / "lock"):  # of two drivers that want the same, one makes the shard
                await self.find_shards()
                tickets = [ticket for ticket in tickets if not self._answered(ticket)]
                for hand in dealt(tickets, self._settings.shards):
                    made.append(await self._made(hand))  # noqa: PERF401  # known, if a later one cannot be made
            if made:
                await to_thread.run_sync(self._give_to_slurm, made)
        except Exception as error:  # noqa: BLE001  # whatever sbatch and submitit raise, their jobs are not under way
            problem = f"it could not be given to Slurm: {error}"
            kind = "no_space" if classify(error, "admission").kind == "no_space" else kind
            _log.warning("jobs could not be given to Slurm: %s", error)
        finally:
            with anyio.CancelScope(shield=True):
                await self._withdraw(tickets, [shard for shard in made if shard.handle is None], problem, kind)

    async def _withdraw(self, tickets: list[Ticket], shards: list[OpenShard], problem: str, kind: FailureKind) -> None:
        """Let nobody wait for what never came to Slurm."""
        for shard in shards:
            await to_thread.run_sync(shard.folder.remove)
            self._forget(shard)
            shard.lose(problem, kind)
        for ticket in tickets:
            if ticket.shard is None:
                ticket.resolve(lost(ticket.job, problem, kind=kind))

    async def _made(self, tickets: list[Ticket]) -> OpenShard:
        folder = ShardFolder(self._folder / "shards" / f"{time.time_ns():x}-{new_id('shard')}")
        jobs = [ticket.job for ticket in tickets]
        await to_thread.run_sync(folder.create, jobs, list(self._first))
        shard = OpenShard(folder, jobs)
        for number, ticket in enumerate(tickets):
            ticket.shard, ticket.number = shard, number
            shard.tickets[number] = ticket
        self._add(shard)
        return shard

    def _give_to_slurm(self, made: list[OpenShard]) -> None:
        shards = [Shard(str(shard.folder.path), self._settings.slots) for shard in made]
        for shard, handle in zip(made, self._submitter.submit_array(shards), strict=True):
            shard.handle = handle
            shard.folder.note_submitted(str(handle.job_id))

    # -- results -----------------------------------------------------------------------------------------------------

    async def look_for_results(self) -> None:
        """Read results, and find out which shards are gone, until cancelled."""
        while True:
            await self._look()
            await anyio.sleep(self._settings.poll_s)

    async def _look(self) -> None:
        async with self._looking:
            try:
                now = await to_thread.run_sync(time_of, self._folder)
                for shard in list(self._shards):
                    await self._look_at(shard, now)
            except OSError as error:  # the file server is away; what it has is there when it is back
                _log.warning("results cannot be looked for just now: %s", error)

    async def _look_at(self, shard: OpenShard, now: float) -> None:
        over = await to_thread.run_sync(shard.is_over, now)
        self._learn(shard, await to_thread.run_sync(shard.read))  # after that: what it wrote before its end counts
        shard.over_for = shard.over_for + 1 if over else 0
        if over and not shard.is_complete:
            if shard.over_for < _SURE:
                return
            await to_thread.run_sync(shard.folder.ask_to_cancel, "all")  # should it only have been silent
            await to_thread.run_sync(shard.end)
            shard.lose("the shard that had it has ended, or gives no sign of life")
        if over:
            self._forget(shard)

    def _forget(self, shard: OpenShard) -> None:
        self._shards.remove(shard)
        self._under_way = {key: place for key, place in self._under_way.items() if place[0] is not shard}

    async def end(self) -> None:
        """Cancel what still runs of our own, and wait until no process is left. Nobody waits for a result any more."""
        for ticket in self._tickets.values():
            ticket.resolve(lost(ticket.job, CLOSED))
        mine = [shard for shard in self._shards if shard.handle is not None]
        for shard in mine:
            if not shard.is_complete:
                await to_thread.run_sync(shard.folder.ask_to_cancel, "all")
        with anyio.move_on_after(self._settings.drain_s):
            await self._until_done(mine)
        for shard in mine:
            await to_thread.run_sync(shard.end)
        with anyio.move_on_after(_END_CAP_S):
            await self._until_done(mine)

    async def _until_done(self, shards: list[OpenShard]) -> None:
        while not all([await to_thread.run_sync(shard.handle.done) for shard in shards]):
            await anyio.sleep(0.05)
