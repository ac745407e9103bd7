"""What a worker does about the checkpoints of a run: its own rollouts are saved, wherever those of others are."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.agents.contract import Agent
from swe_sdk.errors import SandboxError
from swe_sdk.rollouts.live import LiveRollouts
from swe_sdk.rollouts.plan import Planned
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.runs.checkpoints.copies import share_of
from swe_sdk.runs.checkpoints.holdings import Holdings
from swe_sdk.runs.checkpoints.journal import CheckpointJournal, finished_rollouts
from swe_sdk.runs.checkpoints.keeper import Keeper, is_wanted
from swe_sdk.runs.checkpoints.keeping import Keeping
from swe_sdk.runs.checkpoints.places import release
from swe_sdk.runs.checkpoints.restoring import Restorer
from swe_sdk.runs.checkpoints.saver import Saver, opened_saver
from swe_sdk.runs.checkpoints.series import all_series, begin_series, close_series
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.node import node_id, node_of_snapshots
from swe_sdk.store.checkpoints import series_of, snapshots_folder
from swe_sdk.store.layout import last_attempt
from swe_sdk.store.writer import RunWriter

if TYPE_CHECKING:
    from swe_sdk.agents.gateway.gateway import Gateway


_log = logging.getLogger(__name__)
_TIDY_CAP_S = 120.0


@dataclass
class NodeKeeper:
    """The rollouts of one run in this process."""

    run_dir: Path
    keeper: Keeper
    saver: Saver | None = None
    """None = the run has no checkpoints."""
    restorer: Restorer | None = None

    @property
    def lives(self) -> LiveRollouts:
        """Those under way, for the engine."""
        return self.keeper.lives

    async def begins(self, planned: Planned, *, missed: str, afresh: bool) -> Planned:
        """A rollout with where it goes on. Its attempt is a new one, also where it is asked for again after a kill.

        ``missed``: why it is not at the node that has its snapshot. ``afresh``: it starts over, whatever is saved.
        """
        last = await to_thread.run_sync(last_attempt, self.run_dir, planned.rollout_id)
        planned = replace(planned, attempt=max(planned.attempt, last + 1))
        if self.saver is None or self.restorer is None:
            return planned
        self.saver.digests.add(planned)
        if not afresh:
            planned = await self.restorer.take(planned, missed=missed)
        if planned.start is not None:
            self.saver.restored |= {planned.rollout_id}
        return planned

    async def is_over(self, rollout_id: str, result: RolloutResult | None) -> None:
        """It was rolled out to its end (``result``), or was stopped."""
        if result is not None and result.is_recorded:
            self.keeper.finished(result)
        if self.restorer is None:
            return
        try:
            await self.restorer.drop(rollout_id)
        except (SandboxError, OSError) as error:  # its result stands; the snapshot goes when this process ends
            _log.warning("what was made of the copy for %s could not be deleted: %s", rollout_id, error)


@asynccontextmanager
async def kept_on_node(
    writer: RunWriter, agent: Agent, provider: SandboxProvider, *, keeping: Keeping, gateway: Gateway | None
) -> AsyncIterator[NodeKeeper]:
    """Save what this process has under way, every ``keeping.every_s`` seconds.

    When it ends, what is saved of rollouts that are not finished stays, for whoever goes on with them.
    """
    keeper = Keeper((), {})
    if not await to_thread.run_sync(is_wanted, writer.path, keeping):
        yield NodeKeeper(writer.path, keeper)
        return
    series = await to_thread.run_sync(begin_series, writer.path, node_of_snapshots(provider))
    told = CheckpointJournal(writer, series.name)
    restorer = Restorer(
        writer.path,
        provider,
        snapshots_folder(writer.path, series.name),
        await to_thread.run_sync(share_of, keeping, writer.path),
    )
    try:
        await told.sweep(provider)  # what dead workers of this node have left
        async with (
            opened_saver(writer, told, keeper, agent, provider, keeping, gateway, series.name) as saver,
            saver.at_work(),
        ):
            yield NodeKeeper(writer.path, keeper, saver, restorer)
    finally:
        with anyio.move_on_after(_TIDY_CAP_S, shield=True):
            await to_thread.run_sync(close_series, writer.path, series)
            await _tidy_up(writer.path, told, provider)


async def _tidy_up(run_dir: Path, told: CheckpointJournal, provider: SandboxProvider) -> None:
    """A worker of Slurm ends before its driver knows that all is finished: what nobody needs goes now."""
    try:
        await to_thread.run_sync(_release_finished, run_dir)
        await told.catch_up("all rollouts that it holds are finished")
        await told.sweep(provider)
    except* (SandboxError, OSError) as errors:
        _log.warning("not all snapshots could be deleted: %s", errors.exceptions[0])


def _release_finished(run_dir: Path) -> None:
    """Those of series of this node that have ended, and of whose rollouts the journals know that they are finished."""
    mine = {one.name for one in all_series(run_dir) if one.node in ("", node_id()) and one.has_ended}
    holdings = Holdings(run_dir)
    holdings.refresh()
    unfinished = holdings.rollouts() - finished_rollouts(run_dir)
    release(run_dir, [name for name in holdings.of_finished(unfinished) if series_of(name) in mine])
