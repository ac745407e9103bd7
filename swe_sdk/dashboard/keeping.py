"""What is kept of a run's snapshots, what should not be, and what would go. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from swe_sdk.store.rows import CheckpointRow, SnapshotRow

Standing = Literal["kept", "released", "leaked", "violated", "saving"]
"""*saving*: of a checkpoint that is not complete yet, in a run that goes on; the others are those of the palette."""


def standing(row: SnapshotRow, being_saved: Collection[str]) -> Standing:
    """Where a snapshot stands; ``being_saved`` are the checkpoints that are under way."""
    match row.trouble:
        case "violation":
            return "violated"
        case "leak":
            return "saving" if set(row.referenced_by) & set(being_saved) else "leaked"
    return "kept" if row.released_at is None else "released"


def being_saved(checkpoints: Iterable[CheckpointRow], *, is_going: bool) -> frozenset[str]:
    """Checkpoints that a live run has begun and not completed; a dead one completes nothing."""
    return frozenset(row.checkpoint_id for row in checkpoints if row.state == "saving") if is_going else frozenset()


def would_delete(snapshots: Iterable[SnapshotRow], keep: Collection[str]) -> list[SnapshotRow]:
    """The snapshots that go where only these checkpoints are kept: there, and referred to by none of them."""
    kept = set(keep)
    return [row for row in snapshots if row.released_at is None and not kept & set(row.referenced_by)]


def amount(rows: Iterable[SnapshotRow]) -> int | None:
    """Their bytes, as far as they are known; None where no size is, as of providers that cannot tell."""
    return sum(row.size_bytes or 0 for row in rows) or None


def restorable(checkpoints: Sequence[CheckpointRow]) -> list[CheckpointRow]:
    """Those that are complete and not released, the newest first: the order in which a restore tries them."""
    kept = [row for row in checkpoints if row.state == "kept" and row.saved_at is not None]
    return sorted(kept, key=lambda row: (row.saved_at or 0.0, row.checkpoint_id), reverse=True)
