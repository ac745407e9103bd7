"""Saves and restores all of a run, and decides what is kept."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread
from pydantic import Field

from swe_sdk.alongside import alongside
from swe_sdk.checkpoint import catalog, messages
from swe_sdk.checkpoint.catalog import GymCheckpoint
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.coordinator import Coordinator, Prepared, Released
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.retention import Retention, kept
from swe_sdk.checkpoint.waiting import Clock
from swe_sdk.errors import CheckpointError, CoordinationError
from swe_sdk.model.ids import new_id
from swe_sdk.model.record import Record
from swe_sdk.store.checkpoints import WHOLE_RUN, Details, Saved

_log = logging.getLogger("swe_sdk.checkpoint")
RENEW_S, RENEW_AT_LEAST_S = 10.0, 0.01
RESUME_TRIES, RESUME_PAUSE_S = 2, 1.0


class ControllerSettings(Record):
    """How long the parts of a save may take."""

    prepare_timeout_s: float = Field(default=120.0, gt=0)
    """From the closing of admission until everything is parked; then the save is given up."""
    commit_timeout_s: float = Field(default=600.0, gt=0)
    restore_timeout_s: float = Field(default=600.0, gt=0)
    resume_timeout_s: float = Field(default=60.0, gt=0)
    release_timeout_s: float = Field(default=60.0, gt=0)
    deployment: str = "run"
    """Under which name the episodes are listed in ``gym_checkpoint.json``."""


class CheckpointController:
    """Checkpoints of one run, below ``directory`` (absolute). One save or restore at a time."""

    def __init__(
        self,
        coordinator: Coordinator,
        directory: Path,
        *,
        retention: Retention | None = None,
        settings: ControllerSettings | None = None,
        series: str = WHOLE_RUN,
        clock: Clock = time.time,
    ) -> None:
        if not directory.is_absolute():
            raise ValueError(f"the directory of checkpoints must be absolute: {directory}")
        self.coordinator = coordinator
        self.series = series
        """How the ids of its checkpoints begin; those of other series below the same directory are not touched."""
        self.directory = directory
        self.retention = retention or Retention()
        self.settings = settings or ControllerSettings()
        self.last_released = Released()
        """What came of the last release; what failed is freed with the next one."""
        self.on_saved: Callable[[Saved], None] = lambda _saved: None
        """Hears of each checkpoint when it is complete, before anything that only older ones need is freed."""
        self.before_release: Callable[[Saved], Awaitable[None]] | None = None
        """Awaited after that, while everything goes on, and before older ones are dropped; must not raise."""
        self._clock = clock
        self._lock = anyio.Lock()
        self._restored: str | None = None
        """What this process was restored from: kept until a newer checkpoint is complete."""
        self._resumed: str | None = None
        """The only checkpoint for which participants release, whether or not it was saved."""

    async def checkpoints(self) -> list[Saved]:
        """All of them, in the order in which they were saved."""
        return await to_thread.run_sync(catalog.listing, self.directory, self.series)

    # -- save -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def prepared(self, checkpoint_id: str, timeout_s: float) -> AsyncIterator[Prepared]:
        """Everything is parked within the block, and its leases are renewed; it is resumed however the block ends.

        ``Prepared.ready`` may be False: then nothing can be committed.
        """
        try:
            request = messages.PrepareRequest(checkpoint_id=checkpoint_id, deadline_ts=self._clock() + timeout_s)
            prepared = await self.coordinator.prepare(request)
            async with alongside() as tasks:
                tasks.start_soon(self._renew, checkpoint_id, timeout_s, prepared.ready)
                yield prepared
        finally:
            with anyio.CancelScope(shield=True):
                await self._resume(checkpoint_id)

    async def save(self, *, score: float | None = None) -> Saved:
        """Park, write, go on; then drop what the retention policy does not keep.

        ``score`` rates it for ``keep_best``. Raises ``CheckpointError`` where not all was parked in time
        (``deadline_exceeded``, with what blocked), and ``CoordinationError``. After either the run goes on.
        """
        async with self._lock:
            number = 1 + max((one.details.number for one in await self.checkpoints()), default=0)
            checkpoint_id = f"{self.series}-{number:06d}-{new_id('c')[2:8]}"
            path = self.directory / checkpoint_id
            try:
                details = await self._save(checkpoint_id, number, score)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(catalog.discard_incomplete, path)
                raise
            self._restored = None
            saved = Saved(checkpoint_id=checkpoint_id, path=str(path), details=details, status="complete")
            self.on_saved(saved)
            if self.before_release is not None:
                await self.before_release(saved)
            await self._release(await self._to_keep())
            return saved

    async def _save(self, checkpoint_id: str, number: int, score: float | None) -> Details:
        started, phases = time.monotonic(), dict[str, float]()
        async with self.prepared(checkpoint_id, self.settings.prepare_timeout_s) as prepared:
            phases["prepare"] = time.monotonic() - started
            if not prepared.ready:
                raise refuse("deadline_exceeded", f"not everything was parked in time: {prepared.blockers}")
            details = await self._commit(checkpoint_id, prepared, number, score, phases)
            committed = time.monotonic()
        phases["resume"] = time.monotonic() - committed
        details = details.model_copy(update={"phases_s": phases})
        await to_thread.run_sync(catalog.describe, self.directory / checkpoint_id, details)
        return details

    async def _commit(
        self, checkpoint_id: str, prepared: Prepared, number: int, score: float | None, phases: dict[str, float]
    ) -> Details:
        started = time.monotonic()
        path = self.directory / checkpoint_id
        request = messages.CommitRequest(
            checkpoint_id=checkpoint_id,
            deadline_ts=self._clock() + self.settings.commit_timeout_s,
            checkpoint_dir=str(path),
            episode_ids=prepared.episodes,
        )
        replies = await self.coordinator.commit(request)
        phases["commit"] = time.monotonic() - started
        details = Details(
            number=number,
            created_at=self._clock(),
            phases_s=phases,
            records={name: reply.record_count for name, reply in replies.items()},
            bytes={name: reply.bytes for name, reply in replies.items()},
            restarts={name: tuple(map(str, one.restarts)) for name, one in prepared.reports.items() if one.restarts},
            score=score,
        )
        checkpoint = GymCheckpoint(checkpoint_id=checkpoint_id, instances={self.settings.deployment: prepared.episodes})
        await to_thread.run_sync(catalog.complete, path, checkpoint, details)
        return details

    async def save_every(self, interval_s: float) -> None:
        """Save again and again, until it is cancelled; a save that fails is logged, and the next one comes."""
        while True:
            await anyio.sleep(interval_s)
            try:
                await self.save()
            except CheckpointError as error:
                _log.warning("no checkpoint was saved: %s", error)

    async def _renew(self, checkpoint_id: str, timeout_s: float, is_ready: bool) -> None:
        """At once, and then often enough that no lease ends."""
        pause = max(min(timeout_s / 3, RENEW_S), RENEW_AT_LEAST_S)
        while is_ready:
            deadline = self._clock() + timeout_s
            try:
                await self.coordinator.renew(messages.RenewRequest(checkpoint_id=checkpoint_id, deadline_ts=deadline))
            except CheckpointError as error:  # a commit tells what matters of it
                _log.warning("leases were not renewed: %s", error)
            await anyio.sleep(pause)

    async def _resume(self, checkpoint_id: str) -> None:
        self._resumed = checkpoint_id
        for attempt in range(RESUME_TRIES):
            deadline = self._clock() + self.settings.resume_timeout_s
            try:
                await self.coordinator.resume(messages.ResumeRequest(checkpoint_id=checkpoint_id, deadline_ts=deadline))
            except CheckpointError:
                if attempt + 1 == RESUME_TRIES:
                    raise
                await anyio.sleep(RESUME_PAUSE_S)
            else:
                return

    # -- restore ----------------------------------------------------------------------------------------------------

    async def restore(self, checkpoint_id: str | None = None) -> tuple[EpisodeId, ...]:
        """Install a checkpoint (the newest by default) and open; returns its episodes, to go on as the next attempts.

        () where there is none. Damaged ones are skipped with a warning, unless one is named. Where a participant fails,
        nothing of it stays installed anywhere, and ``CoordinationError`` names it.
        """
        async with self._lock:
            if checkpoint_id is None:
                path = await to_thread.run_sync(catalog.newest, self.directory, self.series)
            else:
                path = self.directory / checkpoint_id
            if path is None:
                return ()
            checkpoint = await to_thread.run_sync(catalog.read, path)
            request = messages.RestoreRequest(
                checkpoint_id=checkpoint.checkpoint_id,
                deadline_ts=self._clock() + self.settings.restore_timeout_s,
                checkpoint_dir=str(path),
                episode_ids=checkpoint.episodes,
            )
            await self.coordinator.restore(request)
            await self._resume(checkpoint.checkpoint_id)
            self._restored = checkpoint.checkpoint_id
            return checkpoint.episodes

    # -- retention --------------------------------------------------------------------------------------------------

    async def release(self, *, keep: Iterable[str]) -> Released:
        """Drop every checkpoint but these, such as none at the end of a run. The newest may go as well.

        Nothing is raised for what a participant could not free: that is in ``failures``, and is freed the next time.
        """
        async with self._lock:
            return await self._release(frozenset(keep))

    async def _to_keep(self) -> frozenset[str]:
        complete = await to_thread.run_sync(catalog.candidates, self.directory, self.series)
        return kept(complete, self.retention, needed=[self._restored] if self._restored else [])

    async def _release(self, keep: frozenset[str]) -> Released:
        """First nobody can restore the dropped ones any more, then what they needed goes, then their records."""
        complete = await to_thread.run_sync(catalog.candidates, self.directory, self.series)
        dropped = [self.directory / one.checkpoint_id for one in complete if one.checkpoint_id not in keep]
        for path in dropped:
            await to_thread.run_sync(catalog.mark_released, path)
        self.last_released = await self._release_at_all(keep)
        for path in dropped:
            await to_thread.run_sync(catalog.remove_records, path)
        return self.last_released

    async def _release_at_all(self, keep: frozenset[str]) -> Released:
        """Under the id that was resumed last; where they do not agree on that, a new one is resumed at all first."""
        if self._resumed is not None:
            released = await self._ask_to_release(self._resumed, keep)
            if not any(told.startswith("stale_checkpoint") for told in released.failures.values()):
                return released
        try:
            agreed = new_id("release")
            await self._resume(agreed)
        except CoordinationError as error:
            return Released(failures=error.failures)
        return await self._ask_to_release(agreed, keep)

    async def _ask_to_release(self, checkpoint_id: str, keep: frozenset[str]) -> Released:
        deadline = self._clock() + self.settings.release_timeout_s
        return await self.coordinator.release(
            messages.ReleaseRequest(checkpoint_id=checkpoint_id, deadline_ts=deadline, kept=tuple(sorted(keep)))
        )
