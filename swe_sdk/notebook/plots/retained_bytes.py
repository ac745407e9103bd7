"""Bytes of many snapshots, by the checkpoint under which they were taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from swe_sdk.notebook.palette import CHECKPOINT, SNAPSHOT, style_of
from swe_sdk.notebook.plots.canvas import Canvas
from swe_sdk.store.rows import CheckpointRow, SnapshotRow

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def bars_of_bytes(
    drawn: Canvas,
    checkpoints: Sequence[tuple[CheckpointRow, str]],
    snapshots: Sequence[SnapshotRow],
    states: Mapping[str, str],
) -> None:
    """A bar for each checkpoint (with its name), the oldest on top; every snapshot is in one of them."""
    sizes: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for row in snapshots:
        key = (row.checkpoint_id, states[row.snapshot_id])
        sizes[key] += row.size_bytes
        counts[key] += 1
    longest = max(sum(sizes[each.checkpoint_id, word] for word in SNAPSHOT) for each, _ in checkpoints)
    unit, scale = next((one for one in _UNITS if longest >= one[1]), ("bytes", 1))
    for number, (checkpoint, _) in enumerate(checkpoints):
        told = _bar(drawn, number, checkpoint.checkpoint_id, sizes, scale)
        words = [f"{counts[checkpoint.checkpoint_id, word]:,} {word}" for word in told]
        drawn.write(1.01, number, ", ".join(words) or "none", transform=drawn.ax.get_yaxis_transform(), va="center")
    drawn.rows([f"{style_of(CHECKPOINT, each.state).glyph} {name}" for each, name in checkpoints])
    for label, (each, _) in zip(drawn.ax.get_yticklabels(), checkpoints, strict=True):
        label.set_color(style_of(CHECKPOINT, each.state).text(drawn.theme))
    drawn.ax.set_xlim(0, 1.02 * longest / scale or 1)
    drawn.ax.set_xlabel(f"{unit} of snapshots taken under it")
    drawn.ax.set_ylabel("checkpoint, oldest on top")
    drawn.grid()


def _bar(drawn: Canvas, number: int, checkpoint: str, sizes: Counter[tuple[str, str]], scale: int) -> list[str]:
    """Draws it; returns the states that are in it."""
    left = 0.0
    states = [word for word in SNAPSHOT if (checkpoint, word) in sizes]
    for word in states:
        length = sizes[checkpoint, word] / scale
        bar = drawn.ax.barh(number, length, left=left, height=0.7, color=drawn.fill(SNAPSHOT[word]), linewidth=0)
        bar.set_label(f"{checkpoint} {word}")
        left += length
    return states
