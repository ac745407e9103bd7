"""What pages are made of: cards, tables with their pages, bars, tabs, empty states, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Generic, TypeVar

from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import NOTHING, Child, Html, el, join
from swe_sdk.dashboard.show import count, seconds, tone

T = TypeVar("T")
PAGE_ROWS = 50
_MOST_DRAWN = 1e15


# -- frames ----------------------------------------------------------------------------------------------------------


def heading(title: Child, sub: Child = None, *actions: Child) -> Html:
    """The top of a page: what it is, a line about it, and what can be done with it."""
    words = el("div", el("h1", title), el("p", sub, cls="sub") if sub else None)
    return el("header", words, el("div", *actions, cls="actions") if actions else None, cls="heading")


def card(title: Child, *body: Child, note: Child = None, cls: str = "", key: str | None = None) -> Html:
    """A box with a title; ``note`` stands small beside it. ``cls``: ``wide`` takes the whole width."""
    head = el("header", el("h2", title), el("span", note, cls="dim") if note else None) if title else None
    return el("section", head, *body, cls=f"card {cls}".strip(), key=key)


def cards(*children: Child) -> Html:
    """Cards beside each other, as many as there is room for."""
    return el("div", *children, cls="cards")


def stats(*pairs: tuple[str, Child]) -> Html:
    """Large numbers in a row, each with its label: (label, value)."""
    return el("dl", [el("div", el("dt", label), el("dd", value)) for label, value in pairs], cls="stats")


def facts(*pairs: tuple[str, Child]) -> Html:
    """Small facts, one a line: (label, value). Those whose value is empty are left out."""
    shown = [join(el("dt", label), el("dd", value)) for label, value in pairs if value not in (None, "", ())]
    return el("dl", shown, cls="facts")


def tabs(context: Context, names: Sequence[tuple[str, Child]], chosen: str, *, field: str = "tab") -> Html:
    """Tabs: (name in the URL, label). They are links."""
    links = [
        el("a", label, href=context.href(**{field: name}), aria_current="page" if name == chosen else None)
        for name, label in names
    ]
    return el("nav", links, cls="tabs", aria_label="parts of this page")


# -- what there is to say --------------------------------------------------------------------------------------------


def empty(title: str, explanation: Child, command: str | None = None) -> Html:
    """Nothing is here: why, and the command that would change it."""
    shown = el("p", el("code", command), copy_button(command)) if command else None
    return el("div", el("h3", title), el("p", explanation), shown, cls="empty")


def problem(title: str, what: str, remedy: str = "") -> Html:
    """Something went wrong: what, and what to do about it."""
    return el("div", el("h3", title), el("p", what), el("p", remedy) if remedy else None, cls="problem", role="alert")


def notice(*children: Child, kind: str = "info") -> Html:
    """A line that should be seen. ``kind``: info, warn, bad."""
    return el("div", *children, cls=f"notice {kind}")


def copy_button(what: str, label: str = "copy") -> Html:
    """Copies a text."""
    return el("button", label, type="button", cls="copy", data_copy=what)


def png_button(chart: str) -> Html:
    """Saves the drawing with this id as a PNG file."""
    return el("button", "PNG", type="button", cls="ghost", data_png=chart, title="save this drawing as PNG")


def csv_link(context: Context, what: str) -> Html:
    """Downloads a table: ``what`` is the name of an export, which gets this state."""
    return el("a", "CSV", href=f"export/{what}.csv?{context.state.query}", download=True, cls="button ghost")


# -- bars ------------------------------------------------------------------------------------------------------------


def bar(parts: Iterable[tuple[str, str, float]], *, total: float | None = None, label: str = "") -> Html:
    """A bar in parts: (table, word, amount), in the colours of the palette. ``total`` leaves room for the rest."""
    amounts = [(table, word, _drawn(amount)) for table, word, amount in parts]
    whole = max(_drawn(total or 0.0), sum(amount for _table, _word, amount in amounts)) or 1.0
    at, drawn = 0.0, []
    for table, word, amount in amounts:
        width = 100 * amount / whole
        if width > 0:
            place = {"x": f"{at:.2f}%", "width": f"{width:.2f}%"}
            drawn.append(
                el("rect", el("title", f"{word} {amount:,.6g}"), height="100%", cls=tone(table, word), **place)
            )
        at += width
    return el("svg", drawn, cls="bar", role="img", aria_label=label or None)


def _drawn(amount: float) -> float:
    """A journal may say anything: less than nothing, or more than any number."""
    return min(max(0.0, amount), _MOST_DRAWN) if amount == amount else 0.0


def budget_bar(total_s: float | None, spent_s: float, parked_s: float = 0.0) -> Html:
    """What of a budget is spent and left, and how long it was parked beside it (which is not charged).

    Without a limit there is nothing to draw: a full bar would look like one that is spent.
    """
    parts: list[tuple[str, str, float]] = []
    if total_s is not None:
        left = max(0.0, total_s - spent_s)
        parts = [("budget", "spent", spent_s), ("budget", "remaining", left), ("budget", "parked", parked_s)]
    words = f"{seconds(spent_s)} spent" + (f" of {seconds(total_s)}" if total_s is not None else ", no limit")
    parked = f", parked {seconds(parked_s)}" if parked_s else ""
    return el("span", bar(parts, label=words + parked), cls="budget", title=words + parked)


# -- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column of a table. ``sort`` is what the state's ``sort`` says where the table is sorted by it."""

    title: str
    cell: Callable[[T], Child]
    sort: str = ""
    cls: str = ""
    """``num`` for numbers, ``grow`` for what may take the room that is left, ``narrow`` where it may be cut."""
    hint: str = ""


def table(
    context: Context,
    columns: Sequence[Column[T]],
    rows: Sequence[T],
    *,
    key: Callable[[T], str],
    href: Callable[[T], str] | None = None,
    sorted_by: str = "",
    label: str = "",
    nothing: Child = "nothing here",
) -> Html:
    """Rows of anything. ``key`` names a row for good; with ``href`` the whole row is a link (its first cell too).

    Heads of columns with ``sort`` are links that sort, then turn the order around. ``sorted_by`` is the order where the
    state names none.
    """
    head = el("tr", [_head(context, column, context.state.sort or sorted_by) for column in columns])
    body = [
        el("tr", _cells(columns, row, href), key=key(row), data_href=href(row) if href is not None else None)
        for row in rows
    ]
    if not body:
        body = [el("tr", el("td", nothing, colspan=len(columns), cls="nothing"))]
    return el("div", el("table", el("thead", head), el("tbody", body), aria_label=label or None), cls="table")


def _head(context: Context, column: Column[Any], sort: str) -> Html:
    attributes: dict[str, Any] = {"cls": column.cls or None, "title": column.hint or None, "scope": "col"}
    if not column.sort:
        return el("th", column.title, **attributes)
    is_up, is_down = sort == column.sort, sort == f"-{column.sort}"
    following = f"-{column.sort}" if is_up or (column.cls == "num" and not is_down) else column.sort
    arrow = el("i", "▲" if is_up else "▼" if is_down else "", aria_hidden="true")
    order = "ascending" if is_up else "descending" if is_down else None
    return el("th", context.link([column.title, arrow], sort=following, cls="sort"), aria_sort=order, **attributes)


def _cells(columns: Sequence[Column[T]], row: T, href: Callable[[T], str] | None) -> Iterable[Html]:
    for number, column in enumerate(columns):
        content = column.cell(row)
        if number == 0 and href is not None:
            content = el("a", content, href=href(row))
        yield el("td", content, cls=column.cls or None)


def pager(context: Context, total: int, *, page_rows: int = PAGE_ROWS, what: str = "rows") -> Html:
    """Which rows are shown, and links to the pages around; keys ``[`` and ``]`` go there."""
    page, last = context.state.page, max(1, ceil(total / page_rows))
    first = (page - 1) * page_rows + 1
    told = (
        f"{first:,} to {min(total, page * page_rows):,} of {total:,} {what}" if first <= total else f"{total:,} {what}"
    )
    steps = (("«", 1, None), ("← previous", page - 1, "["), ("next →", page + 1, "]"), ("»", last, None))
    links = [_step(context, label, to, 1 <= to <= last and to != page, shortcut) for label, to, shortcut in steps]
    return el("nav", el("span", told, cls="dim"), links if last > 1 else None, cls="pager", aria_label="pages")


def _step(context: Context, label: str, page: int, is_possible: bool, shortcut: str | None) -> Html:
    if not is_possible:
        return el("span", label, cls="off")
    return el("a", label, href=context.href(page=page), data_shortcut=shortcut)


def offset_of(context: Context, page_rows: int = PAGE_ROWS) -> int:
    """How many rows come before this page."""
    return (context.state.page - 1) * page_rows


def amounts(pairs: Iterable[tuple[Child, int, str]]) -> Html:
    """Words with their numbers, small: (word, number, class of its colour); those of 0 are left out."""
    shown = [el("span", el("b", count(number)), " ", word, cls=cls) for word, number, cls in pairs if number]
    return el("span", shown, cls="amounts") if shown else NOTHING
