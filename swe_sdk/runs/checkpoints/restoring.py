"""Going on, at this node, with rollouts that any process of the run has saved."""

from __future__ import annotations

import logging
from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.checkpoint.snapshots.share import SnapshotCopy, SnapshotShare
from swe_sdk.errors import CapabilityMissing, SweError
from swe_sdk.model.ids import content_key, new_id
from swe_sdk.rollouts.plan import Planned
from swe_sdk.runs.checkpoints.holdings import Holding, Holdings, Way, ways, why_not
from swe_sdk.runs.checkpoints.series import IMPORTED
from swe_sdk.sandbox.contract import SandboxProvider, SupportsSnapshots
from swe_sdk.sandbox.environments import prepare
from swe_sdk.sandbox.node import node_id, node_of_snapshots
from swe_sdk.store.checkpoints import series_of

_log = logging.getLogger(__name__)


class Restorer:
    """For one run, on one provider. ``state_dir`` is that of this process's index; ``share`` has the run's copies."""

    def __init__(self, run_dir: Path, provider: SandboxProvider, state_dir: Path, share: Path | None) -> None:
        self._holdings = Holdings(run_dir)
        self._provider, self._state_dir, self._share = provider, state_dir, share
        self._here = node_of_snapshots(provider) or node_id()
        self._imported: dict[str, str] = {}

    async def take(self, planned: Planned, *, missed: str = "") -> Planned:
        """A rollout with where it goes on, or why it does not; as it is, where nothing is held of it.

        ``missed``: why it is not where its snapshot is. What is made for it stays until :meth:`drop`.
        """
        held = await to_thread.run_sync(self._held, planned)
        if not held:
            return planned
        failures: list[str] = []
        if held[0].task_digest != content_key(planned.task.private()):
            return planned.starting_over(f"{held[0].checkpoint_id} holds it with another task")
        for way, holding in ways(held, here=self._here, there=await self._there(), is_copied=self._is_copied):
            try:
                snapshot = await self._snapshot(way, holding, planned)
            except (SweError, OSError) as error:
                failures.append(f"its copy cannot be used: {error}")
                continue
            return planned.going_on(holding.mark.model_copy(update={"snapshot": snapshot}))
        shared = self._share is not None
        reason = why_not(held, here=self._here, shared=shared, missed=missed, failures=failures)
        _log.warning("%s starts over: %s", planned.rollout_id, reason)
        return planned.starting_over(reason)

    async def drop(self, rollout_id: str) -> None:
        """It is over: delete what was made for it out of a copy."""
        snapshot_id = self._imported.pop(rollout_id, None)
        if snapshot_id is not None and isinstance(self._provider, SupportsSnapshots):
            await self._provider.delete_snapshot(snapshot_id)
            await to_thread.run_sync(self._index().forget, [snapshot_id])

    def _held(self, planned: Planned) -> list[Holding]:
        self._holdings.refresh()
        return self._holdings.of(planned.rollout_id)

    async def _there(self) -> set[str]:
        if not isinstance(self._provider, SupportsSnapshots):
            return set()
        return {snapshot.id for snapshot in await self._provider.snapshots()}

    async def _snapshot(self, way: Way, holding: Holding, planned: Planned) -> str | None:
        if holding.state is None or way != "copy":
            return None if holding.state is None else holding.state.snapshot_id
        copy = self._copy(holding)
        if copy is None:
            raise CapabilityMissing("it is gone")
        ours = (await prepare(self._provider, planned.task.environment)).key
        if holding.mark.environment_key != ours:
            raise CapabilityMissing("its environment is made of other programs than the same one here")
        return await self._import(copy, holding, planned.rollout_id)

    async def _import(self, copy: SnapshotCopy, holding: Holding, rollout_id: str) -> str:
        """The id is written down before the snapshot exists, so that a kill loses none."""
        assert self._share is not None
        snapshot_id = new_id("snap")
        index = await to_thread.run_sync(self._index)
        await to_thread.run_sync(index.intend, IMPORTED, self._provider.name, {rollout_id: snapshot_id})
        self._imported[rollout_id] = snapshot_id
        share = SnapshotShare(self._share, series_of(holding.checkpoint_id))
        await share.bring(self._provider, copy, snapshot_id=snapshot_id)
        return snapshot_id

    def _index(self) -> SnapshotIndex:
        return SnapshotIndex(self._state_dir / IMPORTED)

    def _is_copied(self, holding: Holding) -> bool:
        return self._copy(holding) is not None

    def _copy(self, holding: Holding) -> SnapshotCopy | None:
        """That of its snapshot, of the node that its record names."""
        if self._share is None or holding.state is None:
            return None
        copy = SnapshotShare(self._share, series_of(holding.checkpoint_id)).find(holding.state.snapshot_id)
        return copy if copy is not None and copy.node == holding.node else None
