"""The snapshots of a run, looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from swe_sdk.errors import InputError
from swe_sdk.model.columns import frame_of
from swe_sdk.runs.frames import SNAPSHOTS
from swe_sdk.shown import Shown
from swe_sdk.store.rows import SnapshotRow

if TYPE_CHECKING:
    import pandas as pd


class Snapshots(Shown, Sequence[SnapshotRow]):
    """All snapshots that were taken for checkpoints of a run, released ones too, by the time at which they were."""

    def __init__(self, rows: Sequence[SnapshotRow]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, key: int | str) -> SnapshotRow: ...
    @overload
    def __getitem__(self, key: slice) -> Snapshots: ...
    def __getitem__(self, key: int | str | slice) -> SnapshotRow | Snapshots:
        """By position or by id (``InputError`` where there is none); a slice gives Snapshots."""
        if isinstance(key, slice):
            return Snapshots(self._rows[key])
        if isinstance(key, int):
            return self._rows[key]
        found = next((row for row in self._rows if row.snapshot_id == key), None)
        if found is None:
            raise InputError(f"there is no snapshot {key}")
        return found

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def troubled(self) -> Snapshots:
        """Those that are there though no kept checkpoint needs them, or gone though one does."""
        return Snapshots([row for row in self._rows if row.trouble is not None])

    @property
    def summary(self) -> str:
        """One line: how many are in which state, and the bytes of those that are there, as far as they are known."""
        states = Counter(row.state for row in self._rows)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        sizes = [row.size_bytes for row in self._rows if row.released_at is None and row.size_bytes is not None]
        there = f"; {sum(sizes) / (1 << 20):.1f} MiB there" if sizes else ""
        return f"{told or 'no snapshots'}{there}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: a row a snapshot."""
        return {"snapshots": [row.model_dump(mode="json") | {"state": row.state} for row in self._rows]}

    def to_frame(self) -> pd.DataFrame:
        """A row a snapshot, by its id: state, bytes, and the checkpoints that need it."""
        return frame_of(SNAPSHOTS, map(_row, self._rows), index="snapshot_id")

    def __repr__(self) -> str:
        return f"<Snapshots: {self.summary}>"


def _row(row: SnapshotRow) -> dict[str, Any]:
    joined = {"referenced_by": ", ".join(row.referenced_by), "kept_by": ", ".join(row.kept_by)}
    return {**row.model_dump(), **joined, "state": row.state}
