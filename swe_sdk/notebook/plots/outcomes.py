"""Verdicts by family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swe_sdk.notebook.amounts import many
from swe_sdk.notebook.palette import STATUS
from swe_sdk.notebook.plots.canvas import HATCH, Canvas, canvas, empty
from swe_sdk.notebook.plots.labels import percent, short
from swe_sdk.store.rows import GroupRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLE = "Outcomes by family"
_MOST = 20
_WORDS = ("resolved", "unresolved", "masked")
_OPEN = STATUS["queued"].named("not over")
_ROOM = 0.035
"""The part of the longest bar that a number needs inside of it."""


def plot_outcomes(families: Sequence[GroupRow], *, what: str = "rollout", ax: Axes | None = None) -> Axes:
    """A bar a family, the largest first: resolved, unresolved, masked, and what is not over.

    At the end of each stands the part of what was measured that is resolved: masked ones are in no rate. Beyond 20
    families the smaller ones share a bar.
    """
    groups = [each for each in _together(families) if each.rollouts]
    drawn = canvas(ax, rows=len(groups))
    if not groups:
        return empty(drawn, _TITLE, f"no {what}s yet")
    longest = max(each.rollouts for each in groups)
    for row, group in enumerate(groups):
        _bar(drawn, row, group, longest)
    drawn.rows([short(each.value or "(no family)") for each in groups])
    drawn.ax.set_xlim(0, longest * 1.22)
    drawn.counts(f"{what}s")
    drawn.grid()
    shown = [STATUS[word] for word in _WORDS] + ([_OPEN] if any(map(_open, groups)) else [])
    drawn.heading(
        _TITLE, [_told(groups, what)], [(style, "hatched" if style.label == "masked" else "plain") for style in shown]
    )
    return drawn.ax


def _told(groups: Sequence[GroupRow], what: str) -> str:
    resolved, unresolved, masked = (sum(getattr(each, word) for each in groups) for word in _WORDS)
    measured = resolved + unresolved
    rate = f"{percent(resolved, measured)} of {measured:,} measured resolved" if measured else "nothing measured"
    return f"{many(sum(each.rollouts for each in groups), what)}: {rate}; {masked:,} masked, which are in no rate"


def _bar(drawn: Canvas, row: int, group: GroupRow, longest: int) -> None:
    left = 0
    parts = [(STATUS[word], getattr(group, word)) for word in _WORDS] + [(_OPEN, _open(group))]
    for style, count in parts:
        if not count:
            continue
        bar = drawn.ax.barh(row, count, left=left, height=0.62, color=drawn.fill(style), linewidth=0)
        bar.set_label(f"{style.label} {group.value or ''}")
        if style.label == "masked":
            for patch in bar.patches:
                patch.set(hatch=HATCH, edgecolor=drawn.page.background)
        if count >= longest * _ROOM * len(f"{count:,}") * 0.7:
            drawn.inside(left + count / 2, row, f"{count:,}", style)
        left += count
    measured = group.resolved + group.unresolved
    told = f"{percent(group.resolved, measured)} of {measured:,}" if measured else "not measured"
    drawn.write(left + longest * 0.012, row, told, va="center")


def _open(group: GroupRow) -> int:
    return group.rollouts - group.resolved - group.unresolved - group.masked


def _together(families: Sequence[GroupRow]) -> list[GroupRow]:
    """At most 20: the last one is all the others."""
    ordered = sorted(families, key=lambda each: (-each.rollouts, each.value or ""))
    if len(ordered) <= _MOST:
        return ordered
    rest = ordered[_MOST - 1 :]
    sums = {name: sum(getattr(each, name) for each in rest) for name in ("rollouts", *_WORDS)}
    return [*ordered[: _MOST - 1], GroupRow(value=f"{len(rest):,} other families", **sums)]
