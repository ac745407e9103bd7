"""Saving the rollouts of a process, and restoring them from what it saves for the whole run."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.agents.contract import Agent
from swe_sdk.alongside import alongside
from swe_sdk.checkpoint import catalog, store
from swe_sdk.checkpoint.catalog import BadCheckpoint
from swe_sdk.checkpoint.controller import CheckpointController
from swe_sdk.checkpoint.coordinator import Coordinator
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.participants.model import ModelParticipant
from swe_sdk.checkpoint.records import ResourcesSessionRecord
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxCheckpointer
from swe_sdk.checkpoint.snapshots.share import SnapshotShare
from swe_sdk.errors import CheckpointError, SandboxError
from swe_sdk.model.ids import content_key
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.plan import Planned
from swe_sdk.runs.checkpoints.census import WITH_BOX, Census
from swe_sdk.runs.checkpoints.copies import Copies, share_of
from swe_sdk.runs.checkpoints.journal import CheckpointJournal
from swe_sdk.runs.checkpoints.keeping import Keeping
from swe_sdk.runs.checkpoints.participants import (
    MODEL,
    ROLLOUTS,
    CallsWaitedFor,
    RolloutsParticipant,
    SandboxesParticipant,
    usable_states,
)
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.checkpoints import SANDBOXES, WHOLE_RUN, Saved, checkpoints_folder, snapshots_folder
from swe_sdk.store.writer import RunWriter

if TYPE_CHECKING:
    from swe_sdk.agents.gateway.gateway import Gateway
    from swe_sdk.runs.checkpoints.keeper import Keeper

_log = logging.getLogger(__name__)
BY_POLICY = "the retention policy does not keep it"


@asynccontextmanager
async def opened_saver(
    writer: RunWriter,
    told: CheckpointJournal,
    keeper: Keeper,
    agent: Agent,
    provider: SandboxProvider,
    keeping: Keeping,
    gateway: Gateway | None,
    series: str = WHOLE_RUN,
) -> AsyncIterator[Saver]:
    """What saves the rollouts of a keeper, as one series; ``told`` is its journal."""
    can_freeze = "snapshots" in provider.capabilities
    census = keeper.census = Census(keeper.lives, tier=agent.tier, can_freeze=can_freeze, calls=gateway)
    boxes = SandboxCheckpointer(provider, state_dir=snapshots_folder(writer.path, series))
    digests = Digests(keeper.planned)
    async with AsyncExitStack() as stack:
        rollouts = await stack.enter_async_context(RolloutsParticipant(census, digests.of, writer))
        sandboxes = await stack.enter_async_context(SandboxesParticipant(census, boxes, writer))
        participants: dict[str, Participant] = {ROLLOUTS: rollouts, SANDBOXES: sandboxes}
        if gateway is not None:
            participants[MODEL] = await stack.enter_async_context(
                ModelParticipant(MODEL, gate=CallsWaitedFor(gateway, census))
            )
        controller = CheckpointController(
            Coordinator(participants),
            checkpoints_folder(writer.path),
            retention=keeping.retention,
            series=series,
        )
        saver = Saver(told, keeper, census, controller, rollouts, sandboxes, keeping, provider, digests)
        controller.on_saved = saver.remember
        share = await to_thread.run_sync(share_of, keeping, writer.path)
        if share is not None:
            saver.copies = Copies(SnapshotShare(share, series), boxes, writer, told)
            controller.before_release = saver.copy
        yield saver


@dataclass
class Saver:
    """Restores once, and saves as often as it is asked to."""

    told: CheckpointJournal
    keeper: Keeper
    census: Census
    controller: CheckpointController
    rollouts: RolloutsParticipant
    sandboxes: SandboxesParticipant
    keeping: Keeping
    provider: SandboxProvider
    digests: Digests
    restored: frozenset[str] = frozenset()
    """Rollouts that go on from a checkpoint of an earlier process."""
    copies: Copies | None = None
    """None = snapshots stay on this node."""

    # -- restore -----------------------------------------------------------------------------------------------------

    async def restore(self, afresh: Collection[str]) -> None:
        """Let the rollouts that the newest usable checkpoint holds go on from it; a damaged one is skipped."""
        saved = await self._newest()
        if saved is None:
            return
        started = time.monotonic()
        await self.controller.restore(saved.checkpoint_id)
        self.told.phase(saved.checkpoint_id, "restore", time.monotonic() - started)
        unfinished = {each.rollout_id for each in self.keeper.planned} - set(afresh)
        marks = self._with_snapshots(self.census.saved, saved)
        self.census.remember({name: mark for name, mark in marks.items() if name in unfinished})
        self.restored = frozenset(self.census.saved)
        self.keeper.planned = [self._going_on(each) for each in self.keeper.planned]

    def _with_snapshots(self, marks: Mapping[str, Bookmark], saved: Saved) -> dict[str, Bookmark]:
        """What a checkpoint holds, to go on from; what needs a sandbox, never without its files."""
        ids = {name: state.snapshot_id for name, state in self.sandboxes.saved.items()}
        usable = {name: mark for name, mark in marks.items() if name in ids or mark.next not in WITH_BOX}
        changes = {"checkpoint_id": saved.checkpoint_id}
        return {name: mark.model_copy(update={**changes, "snapshot": ids.get(name)}) for name, mark in usable.items()}

    def remember(self, saved: Saved) -> None:
        """A checkpoint is complete. A rollout that was restored goes on from this one, should its attempt be lost: what
        it began with may be freed from now on."""
        self.sandboxes.saved = self.sandboxes.written
        self.census.remember(self._with_snapshots(self.rollouts.written, saved))
        for live in self.keeper.lives:
            if live.rollout_id in self.restored:
                live.newest = self.census.saved.get(live.rollout_id)

    def _going_on(self, planned: Planned) -> Planned:
        mark = self.census.saved.get(planned.rollout_id)
        if mark is None:
            return planned
        return planned.going_on(mark)

    async def _newest(self) -> Saved | None:
        for saved in reversed(await self.controller.checkpoints()):
            if saved.status != "complete":
                continue
            try:
                await self._require_usable(Path(saved.path))
            except CheckpointError as error:
                warnings.warn(
                    f"checkpoint {saved.checkpoint_id} is skipped: {error.detail}", BadCheckpoint, stacklevel=2
                )
                continue
            return saved
        return None

    async def _require_usable(self, path: Path) -> None:
        """Everything that it needs is there, on disk and at the provider."""
        checkpoint = await to_thread.run_sync(catalog.read, path)

        def records() -> list[ResourcesSessionRecord]:
            place = store.folder(path, "resources", SANDBOXES)
            return store.read_records(
                place, ResourcesSessionRecord, checkpoint_id=checkpoint.checkpoint_id, scope=checkpoint.episodes
            )

        await usable_states(await to_thread.run_sync(records), self.provider)

    # -- save --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Save now and then while the block runs."""
        async with alongside() as tasks:
            tasks.start_soon(self._save_regularly)
            yield

    async def _save_regularly(self) -> None:
        """Until it is cancelled. A save that fails is told, and the run goes on."""
        while self.keeping.every_s is not None:
            await anyio.sleep(self.keeping.every_s)
            if self.controller.series != WHOLE_RUN and not len(self.keeper.lives):
                continue  # a worker without work: what it has saved stays
            try:
                await self.save()
            except Exception:  # noqa: BLE001  a run is worth more than its checkpoint, whatever is wrong with that
                _log.exception("no checkpoint was saved")

    async def save(self) -> Saved | None:
        """Save now; None where that failed."""
        started = time.monotonic()
        try:
            saved = await self.controller.save(score=self.keeper.score)
        except (CheckpointError, SandboxError, OSError) as error:
            _log.warning("no checkpoint was saved: %s", error)
            self.told.phase(self.rollouts.last_checkpoint or "none", "save", time.monotonic() - started, error)
            return None
        await self.told.catch_up(BY_POLICY)
        if self.copies is not None:
            await self.copies.release()
        return saved

    async def copy(self, saved: Saved) -> None:
        """Copy the snapshots of a checkpoint to shared storage, while everything goes on."""
        if self.copies is not None:
            await self.copies.make(saved.checkpoint_id, self.sandboxes.written.values())


class Digests:
    """Digests of tasks, by rollout; each made once."""

    def __init__(self, planned: Sequence[Planned]) -> None:
        self._tasks = {each.rollout_id: each.task for each in planned}
        self._known: dict[str, str] = {}

    def add(self, planned: Planned) -> None:
        """One more that is to be done."""
        self._tasks[planned.rollout_id] = planned.task

    def of(self, rollout_id: str) -> str | None:
        """That of a rollout's task; None for a rollout that is not to be done."""
        task = self._tasks.get(rollout_id)
        if task is None:
            return None
        if task.instance_id not in self._known:
            self._known[task.instance_id] = content_key(task.private())
        return self._known[task.instance_id]
