"""Checkpoints of a run that workers carry out, as its driver sees them: which node has what, and when all may go."""

from __future__ import annotations

import logging
from collections.abc import Collection

from anyio import to_thread

from swe_sdk.errors import SandboxError
from swe_sdk.rollouts.plan import Planned
from swe_sdk.runs.checkpoints.copies import prune_share
from swe_sdk.runs.checkpoints.holdings import Holdings
from swe_sdk.runs.checkpoints.journal import CheckpointJournal
from swe_sdk.runs.checkpoints.keeper import is_wanted
from swe_sdk.runs.checkpoints.keeping import Keeping
from swe_sdk.runs.checkpoints.places import complete_ids, release, settle
from swe_sdk.runs.checkpoints.snapshots import tidy_node
from swe_sdk.store.writer import RunWriter

_log = logging.getLogger(__name__)


class DriverCheckpoints:
    """Of one run, for one pool. Workers save, restore and delete; this tells them where to go on."""

    def __init__(self, writer: RunWriter, keeping: Keeping, afresh: Collection[str]) -> None:
        self._writer, self._keeping, self._afresh = writer, keeping, frozenset(afresh)
        self._told = CheckpointJournal(writer)
        self._holdings = Holdings(writer.path)
        self._is_wanted = False

    async def begin(self, planned: Collection[Planned]) -> dict[str, str]:
        """Drop what nobody will go on from. Returns the node that has the newest snapshot, for rollouts with one.

        No worker may be at work yet.
        """
        path = self._writer.path
        self._is_wanted = await to_thread.run_sync(is_wanted, path, self._keeping)
        if not self._is_wanted:
            return {}
        await to_thread.run_sync(settle, path)
        await to_thread.run_sync(self._drop_finished, {each.rollout_id for each in planned})
        await self._told.open()
        await to_thread.run_sync(prune_share, self._keeping, path)
        nodes = {each.rollout_id: self._node(each.rollout_id) for each in planned}
        return {rollout_id: node for rollout_id, node in nodes.items() if node}

    async def node_of(self, rollout_id: str) -> str:
        """The node that has the newest snapshot of a rollout by now; empty where it can go on anywhere, or starts."""
        if not self._is_wanted:
            return ""
        await to_thread.run_sync(self._holdings.refresh)
        return self._node(rollout_id)

    def starts_over(self, rollout_id: str) -> bool:
        """Whether it does, whatever is saved of it."""
        return rollout_id in self._afresh

    async def let_go(self) -> None:
        """Every rollout is finished: from now on no checkpoint needs a snapshot."""
        if not self._is_wanted:
            return
        try:
            await to_thread.run_sync(lambda: release(self._writer.path, complete_ids(self._writer.path)))
        except OSError as error:
            _log.warning("not all checkpoints could be released: %s", error)

    async def end(self, why_released: str) -> None:
        """The workers have put everything away."""
        if not self._is_wanted:
            return
        try:
            await tidy_node(self._writer.path)  # workers of Slurm are gone by now, and may have been of this node
            await self._told.catch_up(why_released)
            await to_thread.run_sync(prune_share, self._keeping, self._writer.path)
        except* (SandboxError, OSError) as errors:
            _log.warning("not all snapshots could be deleted: %s", errors.exceptions[0])

    def _node(self, rollout_id: str) -> str:
        held = [] if self.starts_over(rollout_id) else self._holdings.of(rollout_id)
        return held[0].node if held else ""

    def _drop_finished(self, unfinished: Collection[str]) -> None:
        self._holdings.refresh()
        release(self._writer.path, self._holdings.of_finished(unfinished))
        self._holdings.refresh()
