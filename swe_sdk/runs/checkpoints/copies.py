"""Copies of a run's snapshots on shared storage: made with each checkpoint, released with what needs them."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint.snapshots.checkpointer import SandboxCheckpointer, SandboxState
from swe_sdk.checkpoint.snapshots.share import SnapshotShare, shares
from swe_sdk.errors import CapabilityMissing, SandboxError
from swe_sdk.model.ids import content_key, safe_name
from swe_sdk.runs.checkpoints.holdings import Holdings
from swe_sdk.runs.checkpoints.journal import CheckpointJournal
from swe_sdk.runs.checkpoints.keeping import Keeping
from swe_sdk.store.events import SnapshotCopied
from swe_sdk.store.layout import read_run
from swe_sdk.store.writer import RunWriter

_log = logging.getLogger(__name__)


class Copies:
    """Those of one series, made by its process."""

    def __init__(
        self, share: SnapshotShare, boxes: SandboxCheckpointer, writer: RunWriter, told: CheckpointJournal
    ) -> None:
        self._share, self._boxes, self._writer, self._told = share, boxes, writer, told

    async def make(self, checkpoint_id: str, states: Iterable[SandboxState]) -> None:
        """Copy the snapshots of a checkpoint that are not there yet. Where that fails, it is told, and the checkpoint
        can be restored on this node alone."""
        started, trouble = time.monotonic(), None
        try:
            for state in states:
                await self._copy(state)
        except (SandboxError, CapabilityMissing, OSError) as error:
            _log.warning("checkpoint %s stays on this node alone: %s", checkpoint_id, error)
            trouble = error
        self._told.phase(checkpoint_id, "copy", time.monotonic() - started, trouble)

    async def release(self) -> None:
        """Drop the copies of snapshots that are not there any more: no kept checkpoint needs them."""
        there = await to_thread.run_sync(self._boxes.index.entries)
        await to_thread.run_sync(self._share.keep_only, there.keys())

    async def _copy(self, state: SandboxState) -> None:
        if await to_thread.run_sync(self._share.find, state.snapshot_id) is None:
            await self._share.copy(self._boxes.provider, state.snapshot_id, state.node)
            self._writer.append(SnapshotCopied(snapshot_id=state.snapshot_id, path=str(self._share.folder)))


def share_of(keeping: Keeping, run_dir: Path) -> Path | None:
    """Where the copies of a run are; blocks. The same on all nodes, and no other run's."""
    if keeping.share is None:
        return None
    made = content_key([run_dir.name, read_run(run_dir).created_at])[:8]
    return keeping.share / f"{safe_name(run_dir.name)}-{made}"


def prune_share(keeping: Keeping, run_dir: Path) -> None:
    """Drop the copies that no complete checkpoint needs, of all series; blocks. Nobody may be saving meanwhile."""
    folder = share_of(keeping, run_dir)
    if folder is None or not folder.is_dir():
        return
    holdings = Holdings(run_dir)
    holdings.refresh()
    needed = holdings.snapshots()
    for share in shares(folder):
        share.keep_only(needed)
    if not needed:
        shutil.rmtree(folder, ignore_errors=True)
