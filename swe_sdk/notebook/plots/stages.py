"""Where the time of rollouts goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from swe_sdk.notebook.amounts import many, seconds
from swe_sdk.notebook.palette import STAGE, style_of
from swe_sdk.notebook.plots.canvas import Canvas, canvas, empty
from swe_sdk.notebook.plots.labels import percent
from swe_sdk.notebook.plots.time_axis import seconds_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Time by stage"
_LEAST_S = 0.001
_FEW = 200


def plot_stages(points: Mapping[str, Sequence[float]], *, ax: Axes | None = None) -> Axes:
    """How long each stage takes, of all attempts that were made, on a logarithmic axis.

    A box holds the middle half of them, its line is the median, its whiskers hold nine of ten; up to 200 are drawn one
    by one. Beside it stands what the stage took all together. Time of being parked is in none of it.
    """
    stages = [stage for stage in (*STAGE, *sorted(set(points) - set(STAGE))) if points.get(stage)]
    drawn = canvas(ax, rows=len(stages), row_in=0.42)
    if not stages:
        return empty(drawn, _TITLE, "no stage is over yet")
    total = sum(sum(points[stage]) for stage in stages)
    for row, stage in enumerate(stages):
        _box(drawn, row, stage, points[stage])
    drawn.rows(stages)
    drawn.ax.set_ylim(top=-0.8)  # the median of the first one stands above its box
    drawn.ax.set_xscale("log")
    longest = max(max(points[stage]) for stage in stages)
    shortest = max(_LEAST_S, min(min(points[stage]) for stage in stages))
    drawn.ax.set_xlim(shortest / 1.6, max(longest, shortest * 10) * 1.6)
    seconds_ticks(drawn.ax.xaxis)
    drawn.ax.set_xlabel("one stage of one attempt")
    drawn.grid()
    for row, stage in enumerate(stages):
        own = sum(points[stage])
        told = f"{seconds(own)} in all, {percent(own, total)}"
        drawn.write(1.01, row, told, transform=drawn.ax.get_yaxis_transform(), va="center")
    count = sum(len(points[stage]) for stage in stages)
    note = "box: the middle half and the median; whiskers: 5 % to 95 %"
    drawn.heading(
        _TITLE, [f"{many(count, 'stage')} of all attempts, {seconds(total)} in all, without parked time", note]
    )
    return drawn.ax


def _box(drawn: Canvas, row: int, stage: str, points: Sequence[float]) -> None:
    import numpy as np

    values = np.maximum(np.asarray(points, dtype=float), _LEAST_S)
    low, first, median, third, high = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
    colour = drawn.fill(style_of(STAGE, stage))
    if len(values) <= _FEW:
        shifts = np.random.default_rng(row).uniform(-0.16, 0.16, len(values))
        drawn.ax.scatter(values, row + shifts, s=9, color=colour, alpha=0.45, linewidths=0, zorder=2)
    drawn.ax.plot([low, high], [row, row], color=colour, linewidth=1.4, zorder=2)
    box = drawn.ax.barh(row, third - first, left=first, height=0.5, color=colour, alpha=0.55, linewidth=0, zorder=3)
    box.set_label(stage)
    drawn.ax.plot([median, median], [row - 0.3, row + 0.3], color=drawn.page.foreground, linewidth=2, zorder=4)
    drawn.write(median, row - 0.33, seconds(float(np.median(points))), ha="center", va="bottom", zorder=5)
