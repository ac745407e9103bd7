"""What a run does about checkpoints: goes on from one at its begin, saves now and then, tidies up at its end."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.agents.contract import Agent
from swe_sdk.errors import SandboxError
from swe_sdk.rollouts.live import LiveRollouts
from swe_sdk.rollouts.plan import Planned
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.runs.checkpoints.census import Census
from swe_sdk.runs.checkpoints.copies import prune_share, share_of
from swe_sdk.runs.checkpoints.journal import CheckpointJournal
from swe_sdk.runs.checkpoints.keeping import Keeping
from swe_sdk.runs.checkpoints.places import complete_ids, release, settle
from swe_sdk.runs.checkpoints.restoring import Restorer
from swe_sdk.runs.checkpoints.saver import BY_POLICY, opened_saver
from swe_sdk.runs.checkpoints.series import all_series
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.checkpoints import checkpoints_folder, snapshots_folder
from swe_sdk.store.writer import RunWriter

if TYPE_CHECKING:
    from swe_sdk.agents.gateway.gateway import Gateway

_log = logging.getLogger(__name__)
_TIDY_CAP_S = 120.0


class Keeper:
    """The checkpoints of one run, while this process carries it out."""

    def __init__(self, planned: Sequence[Planned], results: Mapping[str, int]) -> None:
        self.planned = list(planned)
        """What is to be done; with where it goes on, for what was restored."""
        self.lives = LiveRollouts()
        self.is_finished = False
        """Whether every rollout is: then nobody will go on from a checkpoint, and none is kept."""
        self.census: Census | None = None
        self._results = Counter(results)

    def finished(self, result: RolloutResult) -> None:
        """A rollout is."""
        self._results[result.outcome.status] += 1
        if self.census is not None:
            self.census.finished(result.rollout_id)

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
    if not await to_thread.run_sync(is_wanted, writer.path, keeping):
        yield keeper
        return
    told = CheckpointJournal(writer)
    try:
        await to_thread.run_sync(settle, writer.path)
        await told.open()
        await told.sweep(provider)  # what a killed process has left
        async with opened_saver(writer, told, keeper, agent, provider, keeping, gateway) as saver:
            await saver.restore(afresh)
            await _restore_others(keeper, writer.path, provider, keeping, afresh)
            async with saver.at_work():
                yield keeper
    finally:
        with anyio.move_on_after(_TIDY_CAP_S, shield=True):
            await _tidy_up(writer, told, provider, keeping, keep=not keeper.is_finished)


def is_wanted(run_dir: Path, keeping: Keeping) -> bool:
    """Whether a run has anything to do with checkpoints; blocks."""
    return keeping.every_s is not None or checkpoints_folder(run_dir).is_dir()


async def _restore_others(
    keeper: Keeper, run_dir: Path, provider: SandboxProvider, keeping: Keeping, afresh: Collection[str]
) -> None:
    """What workers have saved, and what lies on shared storage: for a run that another machine, or many, began."""
    if keeping.share is None and not await to_thread.run_sync(all_series, run_dir):
        return
    share = await to_thread.run_sync(share_of, keeping, run_dir)
    restorer = Restorer(run_dir, provider, snapshots_folder(run_dir), share)
    keeper.planned = [
        each if each.start is not None or each.rollout_id in afresh else await restorer.take(each)
        for each in keeper.planned
    ]


async def _tidy_up(
    writer: RunWriter, told: CheckpointJournal, provider: SandboxProvider, keeping: Keeping, *, keep: bool
) -> None:
    """Release what nobody will go on from; what cannot be deleted now is left to ``swe-sdk snapshots --reap``."""
    try:
        if not keep:
            await to_thread.run_sync(lambda: release(writer.path, complete_ids(writer.path)))
        await told.catch_up("every rollout is finished" if not keep else BY_POLICY)
        await told.sweep(provider)
        await to_thread.run_sync(prune_share, keeping, writer.path)
    except* (SandboxError, OSError) as errors:
        _log.warning("not all snapshots could be deleted: %s", errors.exceptions[0])
