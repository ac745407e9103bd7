"""Bytes of many snapshots, by the checkpoint under which they were taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from swe_sdk.notebook.palette import CHECKPOINT, SNAPSHOT, UNKNOWN, Style, style_of
from swe_sdk.notebook.plots.canvas import Canvas
from swe_sdk.store.rows import CheckpointRow, SnapshotRow

_OTHERS = "older, or never complete"
_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


class Row(NamedTuple):
    """A checkpoint, or all that have none of their own."""

    name: str
    style: Style
    sizes: Counter[str]
    """Bytes by state."""
    counts: Counter[str]


def bars_of_bytes(
    drawn: Canvas,
    checkpoints: Sequence[tuple[CheckpointRow, str]],
    snapshots: Sequence[SnapshotRow],
    states: Mapping[str, str],
) -> None:
    """A bar for each checkpoint (with its name), the oldest on top; every snapshot is in one of them.

    It is as long as its snapshots have bytes or, where no size is known, as they are many.
    """
    rows = [row for row in rows_of(checkpoints, snapshots, states) if row.counts or row.name != _OTHERS]
    is_measured = any(snapshot.size_bytes is not None for snapshot in snapshots)
    lengths = [row.sizes if is_measured else row.counts for row in rows]
    longest = max(each.total() for each in lengths)
    unit, scale = next((one for one in _UNITS if longest >= one[1]), ("bytes", 1)) if is_measured else ("number", 1)
    for number, row in enumerate(rows):
        left = 0.0
        for word in (word for word in SNAPSHOT if row.counts[word]):
            length = lengths[number][word] / scale
            bar = drawn.ax.barh(number, length, left=left, height=0.7, color=drawn.fill(SNAPSHOT[word]), linewidth=0)
            bar.set_label(f"{row.name} {word}")
            left += length
        told = ", ".join(f"{row.counts[word]:,} {word}" for word in SNAPSHOT if row.counts[word])
        drawn.write(1.01, number, told or "none", transform=drawn.ax.get_yaxis_transform(), va="center")
    drawn.rows([f"{row.style.glyph} {row.name}" for row in rows])
    for label, row in zip(drawn.ax.get_yticklabels(), rows, strict=True):
        label.set_color(row.style.text(drawn.theme))
    drawn.ax.set_xlim(0, 1.02 * longest / scale or 1)
    drawn.ax.set_xlabel(f"{unit} of snapshots taken under it")
    drawn.ax.set_ylabel("checkpoint, oldest on top")
    drawn.grid()


def rows_of(
    checkpoints: Sequence[tuple[CheckpointRow, str]], snapshots: Sequence[SnapshotRow], states: Mapping[str, str]
) -> list[Row]:
    """What was taken under each checkpoint; first what was taken under one that is not among them."""
    others = Row(_OTHERS, UNKNOWN, Counter(), Counter())
    known = {
        each.checkpoint_id: Row(name, style_of(CHECKPOINT, each.state), Counter(), Counter())
        for each, name in checkpoints
    }
    for snapshot in snapshots:
        row = known.get(snapshot.checkpoint_id, others)
        row.sizes[states[snapshot.snapshot_id]] += snapshot.size_bytes or 0
        row.counts[states[snapshot.snapshot_id]] += 1
    return [others, *known.values()]
