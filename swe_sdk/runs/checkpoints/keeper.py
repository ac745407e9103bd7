"""What a run does about checkpoints: goes on from one at its begin, saves now and then, tidies up at its end."""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.agents.contract import Agent
from swe_sdk.checkpoint import catalog, store
from swe_sdk.checkpoint.catalog import BadCheckpoint
from swe_sdk.checkpoint.controller import CheckpointController
from swe_sdk.checkpoint.coordinator import Coordinator
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.participants.model import ModelParticipant
from swe_sdk.checkpoint.records import ResourcesSessionRecord
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxCheckpointer
from swe_sdk.errors import CheckpointError, SandboxError
from swe_sdk.model.ids import content_key
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.rollouts.live import LiveRollouts
from swe_sdk.rollouts.plan import Planned
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.runs.checkpoints.census import WITH_BOX, Census
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
from swe_sdk.runs.checkpoints.places import complete_ids, settle
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.checkpoints import SANDBOXES, Saved, checkpoints_folder, snapshots_folder
from swe_sdk.store.writer import RunWriter

if TYPE_CHECKING:
    from swe_sdk.agents.gateway.gateway import Gateway

_log = logging.getLogger(__name__)
_TIDY_CAP_S = 120.0
_BY_POLICY = "the retention policy does not keep it"


class Keeper:
    """The checkpoints of one run, while this process carries it out."""

    def __init__(self, planned: Sequence[Planned], results: Mapping[str, int]) -> None:
        self.planned = list(planned)
        """What is to be done; with where it goes on, for what was restored."""
        self.lives = LiveRollouts()
        self.is_finished = False
        """Whether every rollout is: then nobody will go on from a checkpoint, and none is kept."""
        self._results = Counter(results)
        self._census: Census | None = None

    def finished(self, result: RolloutResult) -> None:
        """A rollout is."""
        self._results[result.outcome.status] += 1
        if self._census is not None:
            self._census.finished(result.rollout_id)

    @property
    def score(self) -> float | None:
        """Mean reward of the run so far, over what was measured."""
        measured = self._results["resolved"] + self._results["unresolved"]
        return self._results["resolved"] / measured if measured else None


@asynccontextmanager
async def kept_checkpoints(
    writer: RunWriter,
    planned: Sequence[Planned],
    agent: Agent,
    provider: SandboxProvider,
    *,
    keeping: Keeping,
    gateway: Gateway | None = None,
    results: Mapping[str, int] | None = None,
    afresh: Collection[str] = (),
) -> AsyncIterator[Keeper]:
    """Restore what can be, save every ``keeping.every_s`` seconds while the block runs, and tidy up after it.

    ``results`` counts the rollouts that are finished already, by status. ``afresh`` names rollouts that start over
    whatever is saved of them.
    """
    keeper = Keeper(planned, results or {})
    wanted = keeping.every_s is not None or await to_thread.run_sync(checkpoints_folder(writer.path).is_dir)
    if not wanted:
        yield keeper
        return
    told = CheckpointJournal(writer)
    try:
        await to_thread.run_sync(settle, writer.path)
        await told.open()
        await told.sweep(provider)  # what a killed process has left
        async with _saver(writer, told, keeper, agent, provider, keeping, gateway) as saver:
            await saver.restore(afresh)
            failure: Exception | None = None
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(saver.save_regularly)
                try:
                    yield keeper
                except Exception as error:  # noqa: BLE001  raised below, where no group is put around it
                    failure = error
                tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure
    finally:
        with anyio.move_on_after(_TIDY_CAP_S, shield=True):
            await _tidy_up(writer, told, provider, keep=not keeper.is_finished)


async def _tidy_up(writer: RunWriter, told: CheckpointJournal, provider: SandboxProvider, *, keep: bool) -> None:
    """Release what nobody will go on from; what cannot be deleted now is left to ``swe-sdk snapshots --reap``."""
    try:
        if not keep:
            await to_thread.run_sync(_release_all, writer.path)
        await told.catch_up("every rollout is finished" if not keep else _BY_POLICY)
        await told.sweep(provider)
    except* (SandboxError, OSError) as errors:
        _log.warning("not all snapshots could be deleted: %s", errors.exceptions[0])


def _release_all(run_dir: Path) -> None:
    for checkpoint_id in complete_ids(run_dir):
        path = checkpoints_folder(run_dir) / checkpoint_id
        catalog.mark_released(path)
        catalog.remove_records(path)


@asynccontextmanager
async def _saver(
    writer: RunWriter,
    told: CheckpointJournal,
    keeper: Keeper,
    agent: Agent,
    provider: SandboxProvider,
    keeping: Keeping,
    gateway: Gateway | None,
) -> AsyncIterator[_Saver]:
    can_freeze = "snapshots" in provider.capabilities
    census = keeper._census = Census(keeper.lives, tier=agent.tier, can_freeze=can_freeze, calls=gateway)
    boxes = SandboxCheckpointer(provider, state_dir=snapshots_folder(writer.path))
    digests = _Digests(keeper.planned)
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
        )
        saver = _Saver(told, keeper, census, controller, rollouts, sandboxes, keeping, provider)
        controller.on_saved = saver.remember
        yield saver


@dataclass
class _Saver:
    """Restores once, and saves as often as it is asked to."""

    told: CheckpointJournal
    keeper: Keeper
    census: Census
    controller: CheckpointController
    rollouts: RolloutsParticipant
    sandboxes: SandboxesParticipant
    keeping: Keeping
    provider: SandboxProvider
    restored: frozenset[str] = frozenset()
    """Rollouts that go on from a checkpoint of an earlier process."""

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
        return replace(planned, start=mark, budget=mark.budget, attempt=max(planned.attempt, mark.attempt + 1))

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

    async def save_regularly(self) -> None:
        """Until it is cancelled. A save that fails is told, and the run goes on."""
        while self.keeping.every_s is not None:
            await anyio.sleep(self.keeping.every_s)
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
        await self.told.catch_up(_BY_POLICY)
        return saved


class _Digests:
    """Digests of tasks, by rollout; each made once."""

    def __init__(self, planned: Sequence[Planned]) -> None:
        self._tasks = {each.rollout_id: each.task for each in planned}
        self._known: dict[str, str] = {}

    def of(self, rollout_id: str) -> str | None:
        """That of a rollout's task; None for a rollout that is not to be done."""
        task = self._tasks.get(rollout_id)
        if task is None:
            return None
        if task.instance_id not in self._known:
            self._known[task.instance_id] = content_key(task.private())
        return self._known[task.instance_id]
