"""The snapshots of a run; those that should not be as they are come first."""

from __future__ import annotations

from swe_sdk.notebook.amounts import moment, size
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Cell, Table, View, Word
from swe_sdk.notebook.palette import SNAPSHOT
from swe_sdk.runs.checkpoints.retained import Snapshots
from swe_sdk.store.rows import SnapshotRow

_HEAD = ("state", "snapshot", "rollout", "taken at", "size", "needed by", "of them kept")
_ORDER = ("violated", "leaked", "kept", "released")


def snapshots_view(snapshots: Snapshots) -> View:
    """A row a snapshot: of many what is wrong, then what is kept."""
    order = sorted(snapshots, key=lambda row: _ORDER.index(row.state))[:SHOWN_ROWS]
    title = (Word("Snapshots", "strong"), f" {snapshots.summary}")
    return View(title, (Table(_HEAD, [_row(row) for row in order], len(snapshots)),))


def _row(row: SnapshotRow) -> tuple[Cell, ...]:
    return (
        Badge(SNAPSHOT[row.state]),
        Word(row.snapshot_id, "code"),
        Word(row.rollout_id, "code"),
        moment(row.taken_at),
        "" if row.size_bytes is None else size(row.size_bytes),
        len(row.referenced_by),
        len(row.kept_by),
    )
