"""Columns that stand beside each other, each in coloured parts: things over time, and distributions.

Widths are percentages and heights are pixels, so that a drawing fills its card and its letters stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log10
from typing import NamedTuple

from swe_sdk.dashboard.escape import Child, Html, el
from swe_sdk.dashboard.show import tone

_TOP = 8


class Column(NamedTuple):
    """One column: (table of the palette, word, amount) from the bottom up."""

    parts: Sequence[tuple[str, str, float]]
    title: str = ""
    """What it says when it is pointed at."""
    href: str | None = None


def columns(found: Sequence[Column], *, label: str, key: str, height: int = 150, unit: str = "") -> Html:
    """A drawing of columns; ``key`` is its id, for :func:`swe_sdk.dashboard.components.png_button`."""
    tallest = max((sum(amount for _table, _word, amount in column.parts) for column in found), default=0.0)
    top = nice_top(tallest)
    body = [_column(column, n, len(found), height, top) for n, column in enumerate(found)]
    grid = [_line(value, top, height, unit) for value in (top, top / 2, 0.0)]
    return el("svg", grid, body, cls="chart columns", id=key, role="img", aria_label=label, height=height + _TOP + 6)


def legend(pairs: Sequence[tuple[str, str, Child]]) -> Html:
    """What the colours mean: (table of the palette, word, text)."""
    return el("div", [el("span", text, cls=tone(table, word)) for table, word, text in pairs], cls="legend")


def axis(*labels: Child) -> Html:
    """Labels below a drawing, from its left end to its right one."""
    return el("div", [el("span", label) for label in labels], cls="axis")


def nice_top(value: float) -> float:
    """The least of 1, 2, 4, 5, 10, 20, ... that is not less."""
    if value <= 0:
        return 1.0
    power = 10.0 ** int(log10(value)) if value >= 1 else 10.0 ** -ceil(-log10(value))
    return next(step * power for step in (1, 2, 4, 5, 10) if step * power >= value * (1 - 1e-9))


def _line(value: float, top: float, height: int, unit: str) -> Html:
    y = f"{_TOP + height * (1 - value / top):.1f}"
    word = el("text", f"{value:,.6g}{unit}", x=-8, y=float(y) + 4, text_anchor="end", cls="dim")
    return el("g", el("line", x1=0, x2="100%", y1=y, y2=y), word)


def _column(column: Column, number: int, among: int, height: int, top: float) -> Html:
    place = {"x": f"{100 * (number + 0.08) / among:.3f}%", "width": f"{84 / among:.3f}%"}
    drawn, y = [], float(_TOP + height)
    for table, word, amount in column.parts:
        tall = height * amount / top
        y -= tall
        if amount:
            drawn.append(el("rect", y=f"{y:.2f}", height=f"{tall:.2f}", cls=tone(table, word), **place))
    title = el("title", column.title) if column.title else None
    if column.href is None:
        return el("g", title, drawn)
    target = el("rect", y=0, height=height + _TOP, cls="target", **place)
    return el("a", title, target, drawn, href=column.href)
