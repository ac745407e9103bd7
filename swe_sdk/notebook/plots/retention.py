"""Which checkpoint holds which snapshot, and which of them are kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from swe_sdk.notebook.amounts import many, size
from swe_sdk.notebook.palette import CHECKPOINT, SNAPSHOT, style_of
from swe_sdk.notebook.plots.canvas import Canvas, canvas, empty
from swe_sdk.notebook.plots.labels import short
from swe_sdk.notebook.plots.retained_bytes import bars_of_bytes
from swe_sdk.store.rows import CheckpointRow, SnapshotRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Checkpoints and their snapshots"
ROWS, COLUMNS = 40, 24


def plot_retention(
    checkpoints: Sequence[CheckpointRow], snapshots: Sequence[SnapshotRow], *, ax: Axes | None = None
) -> Axes:
    """A row a snapshot, a column a checkpoint (the 24 newest), a dot where the checkpoint needs the snapshot.

    Full dots are of checkpoints that are kept. The row of a snapshot has its state and its bytes: *kept*, *released*,
    *leaked* (there, though no kept checkpoint needs it), *violated* (released, though one does). Of more than 40
    snapshots: a bar for each checkpoint, with the bytes of the snapshots that were taken under it, by their state.
    """
    states = {row.snapshot_id: row.state for row in snapshots}
    columns = list(checkpoints)[-COLUMNS:]
    in_bars = len(snapshots) > ROWS
    drawn = canvas(ax, rows=len(columns) + 1 if in_bars else len(snapshots) + 1, row_in=0.26)
    if not checkpoints and not snapshots:
        return empty(drawn, _TITLE, "no checkpoint yet")
    if in_bars:
        bars_of_bytes(drawn, [(each, checkpoint_name(each)) for each in columns], snapshots, states)
    else:
        _dots(drawn, columns, snapshots, states)
    legend = [SNAPSHOT[word] for word in SNAPSHOT if word in states.values()]
    drawn.heading(_TITLE, _told(checkpoints, columns, snapshots, states), [(style, "plain") for style in legend])
    return drawn.ax


def _told(
    checkpoints: Sequence[CheckpointRow],
    columns: Sequence[CheckpointRow],
    snapshots: Sequence[SnapshotRow],
    states: Mapping[str, str],
) -> list[str]:
    kept = sum(each.state == "kept" for each in checkpoints)
    held = f"{many(len(snapshots), 'snapshot')}: {_amounts(snapshots, states)}"
    lines = [f"{kept:,} of {many(len(checkpoints), 'checkpoint')} kept; {held}"]
    counts = Counter(states.values())
    wrong = [f"{counts[word]:,} {word}" for word in ("violated", "leaked") if counts[word]]
    lines += [f"wrong: {', '.join(wrong)}"] if wrong else []
    older = len(checkpoints) - len(columns)
    return lines + ([f"{many(older, 'older checkpoint')} in no row of their own"] if older else [])


def _amounts(snapshots: Sequence[SnapshotRow], states: Mapping[str, str]) -> str:
    """What is there and what is not any more: in bytes, as far as they are known, else in snapshots."""
    there = [row for row in snapshots if states[row.snapshot_id] in ("kept", "leaked")]
    if all(row.size_bytes is None for row in snapshots):
        return f"{len(there):,} there, {len(snapshots) - len(there):,} released"
    total, held = (sum(row.size_bytes or 0 for row in rows) for rows in (snapshots, there))
    return f"{size(held)} there, {size(total - held)} released"


def checkpoint_name(checkpoint: CheckpointRow) -> str:
    """``checkpoint-000012-ab3f`` is called ``12``: they are in order."""
    found = re.match(r"checkpoint-0*(\d+)", checkpoint.checkpoint_id)
    return found[1] if found else short(checkpoint.checkpoint_id, 14)


def _dots(
    drawn: Canvas, columns: Sequence[CheckpointRow], snapshots: Sequence[SnapshotRow], states: Mapping[str, str]
) -> None:
    rows = sorted(snapshots, key=lambda row: (row.taken_at or 0.0, row.snapshot_id))
    for column, checkpoint in enumerate(columns):
        _column(drawn, column, checkpoint, len(rows))
    places = {each.checkpoint_id: column for column, each in enumerate(columns)}
    kept = {each.checkpoint_id for each in columns if each.state == "kept"}
    for number, row in enumerate(rows):
        _row(drawn, number, row, states[row.snapshot_id], places, kept)
    drawn.rows(_row_names(rows))
    names = [checkpoint_name(each) for each in columns]
    drawn.columns(names, rotation=0 if max(map(len, names), default=0) <= 4 else 40)
    for label, each in zip(drawn.ax.get_xticklabels(), columns, strict=True):
        label.set_color(style_of(CHECKPOINT, each.state).text(drawn.theme))
    drawn.ax.set_xlabel("checkpoints, oldest first: kept ones have a full line and full dots")
    drawn.ax.set_xlim(-0.6, max(len(columns) - 0.5, 0.5))
    drawn.ax.spines[:].set_visible(False)


def _row_names(rows: Sequence[SnapshotRow]) -> list[str]:
    """Of the rollouts; of one with several snapshots, the end of their ids too."""
    times = Counter(row.rollout_id for row in rows)
    return [
        short(row.rollout_id, 22) + f" {row.snapshot_id[-6:]}" if times[row.rollout_id] > 1 else short(row.rollout_id)
        for row in rows
    ]


def _column(drawn: Canvas, column: int, checkpoint: CheckpointRow, rows: int) -> None:
    style = style_of(CHECKPOINT, checkpoint.state)
    line = "-" if checkpoint.state == "kept" else ":"
    drawn.ax.plot([column, column], [-0.5, max(rows, 1) - 0.5], line, color=drawn.fill(style), linewidth=1.2, zorder=1)


def _row(drawn: Canvas, number: int, row: SnapshotRow, state: str, places: Mapping[str, int], kept: set[str]) -> None:
    style = SNAPSHOT[state]
    colour = drawn.fill(style)
    at = sorted(places[each] for each in row.referenced_by if each in places)
    if at:
        drawn.ax.plot([at[0], at[-1]], [number, number], color=colour, linewidth=5, alpha=0.45, solid_capstyle="round")
    full = [places[each] for each in row.referenced_by if each in kept]
    hollow = [column for column in at if column not in full]
    dots = drawn.ax.scatter(full, [number] * len(full), s=46, color=colour, zorder=3)
    dots.set_gid(f"kept {row.snapshot_id}")
    rings = drawn.ax.scatter(hollow, [number] * len(hollow), s=42, linewidths=1.4, zorder=3)
    rings.set(facecolor=drawn.page.background, edgecolor=colour)
    rings.set_gid(f"released {row.snapshot_id}")
    told = f"{style.glyph} {state}" + ("" if row.size_bytes is None else f"  {size(row.size_bytes)}")
    beside = drawn.ax.get_yaxis_transform()
    drawn.write(1.01, number, told, transform=beside, va="center", color=style.text(drawn.theme))
