"""Spans on a line of time, one row a drawing, all rows on the same scale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from swe_sdk.dashboard.escape import Html, el
from swe_sdk.dashboard.show import tone

_HEIGHT = 18


class Mark(NamedTuple):
    """A moment that all rows share: drawn through all of them, ``strong`` as a full line."""

    at: float
    title: str
    strong: bool


class Scale(NamedTuple):
    """From when to when, in Unix seconds."""

    since: float
    until: float

    def place(self, at: float) -> str:
        """Where a moment is, from the left."""
        share = (at - self.since) / max(self.until - self.since, 1e-6)
        return f"{100 * min(1.0, max(0.0, share)):.3f}%"

    def width(self, start: float, end: float) -> str:
        """How wide a span is; never nothing."""
        share = (min(end, self.until) - max(start, self.since)) / max(self.until - self.since, 1e-6)
        return f"{100 * max(0.004, share):.3f}%"


def span_row(
    scale: Scale,
    marks: Iterable[Mark],
    span: tuple[float, float],
    colour: tuple[str, str],
    dots: Sequence[tuple[float, bool, str]] = (),
    *,
    label: str = "",
) -> Html:
    """One row: a span in a colour of the palette, and dots on it: (when, filled, what it says)."""
    lines = [_line(scale, mark) for mark in marks]
    start, end = span
    bar = el(
        "rect",
        el("title", label) if label else None,
        x=scale.place(start),
        width=scale.width(start, end),
        y=_HEIGHT / 2 - 4,
        height=8,
        rx=3,
        cls=tone(*colour),
    )
    points = [_dot(scale, *dot) for dot in dots]
    return el("svg", lines, bar, points, cls="span", role="img", aria_label=label or None, height=_HEIGHT)


def _line(scale: Scale, mark: Mark) -> Html:
    x = scale.place(mark.at)
    if not mark.strong:  # there may be many of them in each row: no more than what is seen
        return el("line", x1=x, x2=x, y2=_HEIGHT, cls="mark")
    return el("line", el("title", mark.title), x1=x, x2=x, y1=0, y2=_HEIGHT, cls="mark strong")


def _dot(scale: Scale, at: float, filled: bool, title: str) -> Html:
    kind = "dot filled" if filled else "dot"
    return el("circle", el("title", title), cx=scale.place(at), cy=_HEIGHT / 2, r=3, cls=kind)
