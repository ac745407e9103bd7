"""What became of the budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swe_sdk.notebook.amounts import many, seconds
from swe_sdk.notebook.palette import BUDGET
from swe_sdk.notebook.plots.canvas import FAINT, HATCH, Canvas, Look, canvas, empty
from swe_sdk.notebook.plots.labels import short
from swe_sdk.notebook.plots.time_axis import Unit, unit_for
from swe_sdk.store.plotted import BudgetPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Budgets"
_LIMIT = 40
_BINS = 400
_LOOKS: tuple[tuple[str, Look], ...] = (("spent", "plain"), ("remaining", "faint"), ("parked", "hatched"))


def plot_budgets(points: Sequence[BudgetPoint], *, limit: int = _LIMIT, ax: Axes | None = None) -> Axes:
    """Seconds spent, parked and remaining of each rollout, the one that has spent most first.

    A bar a rollout, its budget marked by a line; time of being parked is drawn beyond it, because it is never charged.
    Of more than ``limit`` rollouts the same as areas, over their rank.
    """
    ordered = sorted(points, key=lambda each: -each.spent_s)
    many_of_them = len(ordered) > limit
    drawn = canvas(ax, rows=10 if many_of_them else len(ordered), row_in=0.26)
    if not ordered:
        return empty(drawn, _TITLE, "no rollout has begun")
    unit = unit_for(max(_length(each) for each in ordered))
    if many_of_them:
        _areas(drawn, ordered, unit)
    else:
        _bars(drawn, ordered, unit)
    title = f"{_TITLE} of {many(len(ordered), 'rollout')}" if many_of_them else _TITLE
    drawn.heading(title, _told(ordered), [(BUDGET[word], look) for word, look in _LOOKS])
    return drawn.ax


def _remaining(point: BudgetPoint) -> float:
    return 0.0 if point.total_s is None else max(0.0, point.total_s - point.spent_s)


def _length(point: BudgetPoint) -> float:
    return point.spent_s + _remaining(point) + point.parked_s


def _told(points: Sequence[BudgetPoint]) -> list[str]:
    spent, parked = (sum(getattr(each, name) for each in points) for name in ("spent_s", "parked_s"))
    over = sum(each.total_s is not None and each.spent_s >= each.total_s for each in points)
    free = sum(each.total_s is None for each in points)
    counts = [f"{many(over, 'rollout')} {'has' if over == 1 else 'have'} nothing left"] if over else []
    counts += [f"{many(free, 'rollout')} without a limit"] if free else []
    return [f"{seconds(spent)} spent; {seconds(parked)} parked, which is not charged", "; ".join(counts)]


def _bars(drawn: Canvas, points: Sequence[BudgetPoint], unit: Unit) -> None:
    rows = range(len(points))
    spent = [each.spent_s / unit.seconds for each in points]
    rest = [_remaining(each) / unit.seconds for each in points]
    parked = [each.parked_s / unit.seconds for each in points]
    whole = [a + b for a, b in zip(spent, rest, strict=True)]
    bars = (("spent", spent, None), ("remaining", rest, spent), ("parked", parked, whole))
    for word, lengths, left in bars:
        drawn.ax.barh(
            rows,
            lengths,
            left=left,
            height=0.66,
            color=drawn.fill(BUDGET[word]),
            alpha=FAINT if word == "remaining" else None,
            hatch=HATCH if word == "parked" else None,
            edgecolor=drawn.page.background,
            linewidth=0,
            label=word,
        )
    for row, each in enumerate(points):
        if each.total_s is not None:
            at = max(each.total_s, each.spent_s) / unit.seconds
            drawn.ax.plot([at, at], [row - 0.42, row + 0.42], color=drawn.page.foreground, linewidth=1.6)
    drawn.rows([short(each.rollout_id) for each in points])
    drawn.ax.set_xlim(0, 1.03 * max(_length(each) for each in points) / unit.seconds or 1)
    drawn.ax.set_xlabel(f"{unit.name}; the line ends the budget")
    drawn.grid()


def _areas(drawn: Canvas, points: Sequence[BudgetPoint], unit: Unit) -> None:
    """Means of equal numbers of rollouts, side by side."""
    import numpy as np

    values = np.array([(each.spent_s, _remaining(each), each.parked_s) for each in points]) / unit.seconds
    edges = np.unique(np.linspace(0, len(points), min(_BINS, len(points)) + 1).astype(int))
    means = np.add.reduceat(values, edges[:-1], axis=0) / np.diff(edges)[:, None]
    lower = np.zeros(len(means))
    for word, column in (("spent", 0), ("remaining", 1), ("parked", 2)):
        upper = lower + means[:, column]
        drawn.ax.stairs(
            upper,
            edges,
            baseline=lower,
            fill=True,
            color=drawn.fill(BUDGET[word]),
            alpha=FAINT if word == "remaining" else None,
            label=word,
        )
        lower = upper
    drawn.ax.set_xlim(0, len(points))
    drawn.ax.set_ylim(0, 1.05 * float(lower.max()) or 1)
    drawn.counts("rollouts, the one that has spent most first")
    drawn.ax.set_ylabel(unit.name)
    drawn.grid("y")
