"""Two runs on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from swe_sdk.metrics.comparison import CHANGES, Comparison, TaskPair
from swe_sdk.notebook.amounts import many
from swe_sdk.notebook.palette import CHANGE, STATUS, UNKNOWN, Style
from swe_sdk.notebook.plots.canvas import FAINT, HATCH, Canvas, Look, canvas, empty
from swe_sdk.notebook.plots.labels import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LIMIT = 40
_GAINED = CHANGE["gained"].named("passes more often")
_LOST = CHANGE["lost"].named("passes less often")


class Group(NamedTuple):
    """Tasks that have a change in common."""

    name: str
    tasks: int
    style: Style
    look: Look


def plot_comparison(comparison: Comparison, *, limit: int = _LIMIT, ax: Axes | None = None) -> Axes:
    """A bar for each task whose pass rate differs: to the right where b passes more often, to the left where less.

    Above stand McNemar's exact test and the difference of pass@1 with its interval, both over tasks that both runs have
    measured, and how many are masked, which are in neither. Of more than ``limit`` such tasks, and where none differs,
    the numbers of tasks by what became of them.
    """
    title = f"{short(comparison.b, 32)} beside {short(comparison.a, 32)}"
    flips = comparison.flips
    one_by_one = 0 < len(flips) <= limit
    drawn = canvas(ax, rows=len(flips) if one_by_one else 7, row_in=0.26 if one_by_one else 0.36)
    if not len(comparison):
        return empty(drawn, title, "the two have no finished rollout")
    if one_by_one:
        _flips(drawn, flips)
        drawn.heading(title, _told(comparison), [(_GAINED, "plain"), (_LOST, "plain")])
    else:
        _groups(drawn, groups_of(comparison))
        drawn.heading(title, _told(comparison))
    return drawn.ax


def _told(comparison: Comparison) -> list[str]:
    n, p = comparison.counts, comparison.p_value
    apart = [f"{n[kind]:,} {kind}" for kind in CHANGES[3:] if n[kind]]
    measured = many(len(comparison.measured), "task")
    told = f"{n['gained']:,} gained, {n['lost']:,} lost of {measured} measured in both"
    difference = comparison.difference
    if difference.value is None:
        return ["; ".join((told, *apart))]
    by = f"{100 * difference.value:+.1f} points [{100 * difference.low:+.1f}, {100 * difference.high:+.1f}]"
    test = f"{comparison.test} p " + (f"= {p:.3g}" if p >= 0.001 else "< 0.001")
    lines = ["; ".join((told, *apart)), f"pass@1 {by} with 95 % confidence; {test}"]
    moved = comparison.if_masks_were_known
    if moved is not None:
        lines.append(f"masks could move the difference to {100 * moved.low:+.1f} or {100 * moved.high:+.1f} points")
    return lines


def _flips(drawn: Canvas, flips: Sequence[TaskPair]) -> None:
    def by(pair: TaskPair) -> float:
        return (pair.rate_b or 0.0) - (pair.rate_a or 0.0)

    rows = sorted(flips, key=lambda pair: (-by(pair), pair.instance_id))
    for row, pair in enumerate(rows):
        style = _GAINED if by(pair) > 0 else _LOST
        bar = drawn.ax.barh(row, by(pair), height=0.66, color=drawn.fill(style), linewidth=0)
        bar.set_label(pair.instance_id)
        told = f"{pair.verdict_a} → {pair.verdict_b}"
        right = by(pair) > 0
        drawn.write(-0.02 if right else 0.02, row, told, ha="right" if right else "left", va="center", fontsize=8)
    drawn.rows([short(pair.instance_id) for pair in rows])
    drawn.ax.axvline(0, color=drawn.page.foreground, linewidth=1)
    drawn.ax.set_xlim(-1.05, 1.05)
    drawn.ax.set_xlabel("pass rate of b less that of a")
    drawn.grid()


def groups_of(comparison: Comparison) -> list[Group]:
    """What became of all tasks: each is in one group."""
    same = [pair for pair in comparison if pair.change == "same"]
    solved = sum(pair.rate_a == 1.0 for pair in same)
    failed = sum(pair.rate_a == 0.0 for pair in same)
    masked = comparison.masked
    in_a = sum(pair.rate_a is None and pair.rate_b is not None for pair in masked)
    in_b = sum(pair.rate_b is None and pair.rate_a is not None for pair in masked)
    n = comparison.counts
    found = [
        Group("resolved in both", solved, STATUS["resolved"], "faint"),
        Group("gained in b", n["gained"], STATUS["resolved"], "plain"),
        Group("lost in b", n["lost"], STATUS["unresolved"], "plain"),
        Group("equal rates between", len(same) - solved - failed, UNKNOWN, "plain"),
        Group("resolved in neither", failed, STATUS["unresolved"], "faint"),
        Group("masked in a alone", in_a, STATUS["masked"], "hatched"),
        Group("masked in b alone", in_b, STATUS["masked"], "hatched"),
        Group("masked in both", len(masked) - in_a - in_b, STATUS["masked"], "hatched"),
        Group("only in a", n["only in a"], UNKNOWN, "faint"),
        Group("only in b", n["only in b"], UNKNOWN, "faint"),
    ]
    always = ("gained in b", "lost in b")
    return [group for group in found if group.tasks or group.name in always]


def _groups(drawn: Canvas, groups: Sequence[Group]) -> None:
    longest = max(group.tasks for group in groups) or 1
    for row, group in enumerate(groups):
        bar = drawn.ax.barh(
            row,
            group.tasks,
            height=0.66,
            color=drawn.fill(group.style),
            alpha=FAINT if group.look == "faint" else None,
            hatch=HATCH if group.look == "hatched" else None,
            edgecolor=drawn.page.background,
            linewidth=0,
        )
        bar.set_label(group.name)
        drawn.write(group.tasks + longest * 0.012, row, f"{group.tasks:,}", va="center")
    drawn.rows([group.name for group in groups])
    drawn.ax.set_xlim(0, longest * 1.12)
    drawn.counts("tasks")
    drawn.grid()
