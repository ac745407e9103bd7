"""What the journal of a run hears of its checkpoints. What is on disk is the truth; the journal follows it."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint import catalog
from swe_sdk.checkpoint.catalog import Saved
from swe_sdk.runs.checkpoints.participants import SANDBOXES
from swe_sdk.runs.checkpoints.places import checkpoints_folder
from swe_sdk.store.events import CheckpointPhase, CheckpointReleased, CheckpointSaved
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter


class CheckpointJournal:
    """Tells of each checkpoint once that it is complete, and once that it is released."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._told: dict[str, str] = {}

    async def open(self) -> None:
        """Find out what earlier processes have told, and tell what they could not any more."""
        self._told = await to_thread.run_sync(_states, self._writer.path)
        await self.catch_up("")

    async def catch_up(self, why_released: str) -> None:
        """Tell what has changed on disk."""
        for saved in await to_thread.run_sync(catalog.listing, checkpoints_folder(self._writer.path)):
            if saved.status == "incomplete":
                continue
            if self._told.get(saved.checkpoint_id) not in ("kept", "released"):
                await self._saved(saved)
            if saved.status == "released" and self._told.get(saved.checkpoint_id) != "released":
                await self._writer.append_async(
                    CheckpointReleased(checkpoint_id=saved.checkpoint_id, reason=why_released)
                )
            self._told[saved.checkpoint_id] = "kept" if saved.status == "complete" else "released"

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
        details = saved.details
        for operation, seconds in details.phases_s.items():
            self.phase(saved.checkpoint_id, operation, seconds)
        await self._writer.append_async(
            CheckpointSaved(
                checkpoint_id=saved.checkpoint_id,
                path=saved.path,
                records=sum(details.records.values()),
                restarts=len({name for names in details.restarts.values() for name in names}),
                snapshots=details.records.get(SANDBOXES, 0),
                size_bytes=sum(details.bytes.values()),
                seconds=sum(details.phases_s.values()),
            )
        )


def _states(run_dir: Path) -> dict[str, str]:
    with open_index(run_dir) as index:
        return {row.checkpoint_id: row.state for row in index.checkpoints()}
