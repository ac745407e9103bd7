"""What the journal of a run hears of its checkpoints. What is on disk is the truth; the journal follows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint import catalog
from swe_sdk.runs.checkpoints.participants import tell_released
from swe_sdk.runs.checkpoints.places import Swept, sweep_snapshots
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.node import node_of_snapshots
from swe_sdk.store.checkpoints import Saved, checkpoints_folder
from swe_sdk.store.events import CheckpointPhase, CheckpointReleased
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import open_index
from swe_sdk.store.rows import SnapshotRow
from swe_sdk.store.writer import RunWriter


class CheckpointJournal:
    """Tells of each checkpoint once that it is complete, once that it is released, and of snapshots that are gone."""

    def __init__(self, writer: RunWriter, series: str | None = None) -> None:
        """``series`` = speak of that one alone."""
        self._writer, self._series = writer, series
        self._told: dict[str, str] = {}
        self._leaks: dict[str, SnapshotRow] = {}
        """Snapshots that the journals take for there, and no complete checkpoint needs."""

    async def open(self) -> None:
        """Find out what earlier processes have told, and tell what they could not any more."""
        self._told, self._leaks = await to_thread.run_sync(_told_and_leaks, self._writer.path)
        await self.catch_up("")

    async def sweep(self, provider: SandboxProvider) -> None:
        """Delete the snapshots that no complete checkpoint needs, and tell of them and of all that were gone before.

        Nothing may be saving meanwhile.
        """
        await self.gone(await sweep_snapshots(self._writer.path, provider, leaks_of(self._leaks, provider)))

    async def gone(self, swept: Swept) -> None:
        """Tell of snapshots that are not there any more."""
        await tell_released(self._writer, swept.gone)
        for snapshot_id in swept.gone:
            self._leaks.pop(snapshot_id, None)

    async def catch_up(self, why_released: str) -> None:
        """Tell what has changed on disk."""
        found = await to_thread.run_sync(catalog.listing, checkpoints_folder(self._writer.path), self._series)
        for saved in found:
            if saved.status == "incomplete":
                continue
            if self._told.get(saved.checkpoint_id) not in ("kept", "released"):
                await self._saved(saved)
            if saved.status == "released" and self._told.get(saved.checkpoint_id) != "released":
                await self._released(saved.checkpoint_id, why_released)
            self._told[saved.checkpoint_id] = "kept" if saved.status == "complete" else "released"
        for name in self._kept() - {saved.checkpoint_id for saved in found}:
            await self._released(name, "its folder is gone")
            self._told[name] = "released"

    def _kept(self) -> set[str]:
        return {name for name, state in self._told.items() if state == "kept"}

    def phase(self, checkpoint_id: str, operation: str, seconds: float, error: Exception | None = None) -> None:
        """One operation is over; with what went wrong."""
        self._writer.append(
            CheckpointPhase(
                checkpoint_id=checkpoint_id,
                operation=operation,
                seconds=seconds,
                ok=error is None,
                message="" if error is None else str(error)[:500],
            )
        )

    async def _saved(self, saved: Saved) -> None:
        for operation, seconds in saved.details.phases_s.items():
            self.phase(saved.checkpoint_id, operation, seconds)
        await self._writer.append_async(saved.told)

    async def _released(self, checkpoint_id: str, why: str) -> None:
        await self._writer.append_async(CheckpointReleased(checkpoint_id=checkpoint_id, reason=why))


def leaked_snapshots(run_dir: Path) -> dict[str, SnapshotRow]:
    """Snapshots that the journals of a run take for there, and no complete checkpoint needs."""
    return _told_and_leaks(run_dir)[1]


def finished_rollouts(run_dir: Path) -> set[str]:
    """Rollouts of which any journal of the run says that they are finished."""
    with open_index(run_dir) as index:
        index.refresh()
        graded_or_masked = RolloutFilter(status=("resolved", "unresolved", "masked"))
        return {row.rollout_id for row in index.outlines(graded_or_masked)}


def leaks_of(leaks: Mapping[str, SnapshotRow], provider: SandboxProvider) -> list[str]:
    """Those of a provider that it has here, or nowhere any more."""
    here = ("", node_of_snapshots(provider))
    return [name for name, row in leaks.items() if row.provider == provider.name and row.node in here]


def _told_and_leaks(run_dir: Path) -> tuple[dict[str, str], dict[str, SnapshotRow]]:
    with open_index(run_dir) as index:
        leaks = (row for row in index.snapshots() if row.trouble == "leak")
        return index.told_checkpoints(), {row.snapshot_id: row for row in leaks}
