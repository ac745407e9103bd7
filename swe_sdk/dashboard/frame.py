"""What is around every view: the menu, what is chosen, what the index could not read."""

from __future__ import annotations

from swe_sdk.dashboard.components import notice
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html, cut, el, join
from swe_sdk.dashboard.show import count
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.views import views
from swe_sdk.store.rows import IndexStatus, RunRow

_KEYS = (
    ("/", "search"),
    ("j k", "next and previous row; Enter opens it"),
    ("[ ]", "previous and next page"),
    ("p n", "previous and next rollout"),
    ("t", "light or dark"),
    ("?", "these keys"),
    ("Esc", "leave a field, close a menu"),
)


def framed(context: Context, body: Html) -> Html:
    """A whole page."""
    status = context.index.status()
    main = el("main", *_notices(context, status), body, id="main", key=f"view-{context.state.view}")
    return join(_header(context), main, _footer(context, status), _help())


def title_of(state: State) -> str:
    """The title of the browser's window."""
    view = views().get(state.view)
    parts = [cut(state.rollout, 60), view.title if view else state.view, cut(", ".join(state.run), 60), "swe_sdk"]
    return " - ".join(part for part in parts if part)


def _header(context: Context) -> Html:
    view = views().get(context.state.view)
    chosen = view.under or view.name if view is not None else ""
    links = [
        el(
            "a",
            view.title,
            href=f"?{context.state.goto(view.name).query}",
            aria_current="page" if chosen == view.name else None,
            title=view.hint or None,
        )
        for view in views().values()
        if view.in_menu
    ]
    brand = el("a", el("b", "swe_sdk"), href="?view=runs", cls="brand", title=str(context.root))
    menu = el("nav", links, cls="menu-bar", aria_label="views")
    switch = el(
        "button", "◐", type="button", data_theme_switch=True, title="light or dark (t)", aria_label="light or dark"
    )
    keys = el("button", "?", type="button", data_help=True, title="keys (?)", aria_label="keys")
    return el("header", brand, menu, _scope(context), _pulse(context.all_runs), switch, keys, cls="top", key="top")


def _scope(context: Context) -> Html | None:
    """Which runs the views are about."""
    if not context.state.run:
        return None
    told = context.state.run[0] if len(context.state.run) == 1 else f"{len(context.state.run)} runs"
    all_runs = el("a", "\u2715", href=context.href(run=(), rollout=""), title="all runs", aria_label="all runs")
    return el("span", el("span", cut(told, 32), title=", ".join(context.state.run)), all_runs, cls="scope")


def _pulse(runs: list[RunRow]) -> Html:
    going = sum(1 for row in runs if row.ended_at is None and row.alive)
    if not going:
        return el("span", "no run is going", cls="pulse dim", title="nothing is asked for until something changes")
    return el("span", f"{going} live", cls="pulse live", title="changes are shown within two seconds")


def _notices(context: Context, status: IndexStatus) -> list[Html]:
    found = [notice(f"In the link, {problem}: it was left out.", kind="warn") for problem in context.state.problems]
    if status.bad_lines or status.newer_lines or status.torn:
        found.append(notice("; ".join(status.notes[1:]), ".", kind="warn"))
    return found


def _footer(context: Context, status: IndexStatus) -> Html:
    lines = f"{count(status.lines)} events in {count(status.journals)} journals"
    return el("footer", str(context.root), " · ", lines, " · read only", key="footer")


def _help() -> Html:
    rows = [el("tr", el("td", [el("kbd", each) for each in keys.split()]), el("td", what)) for keys, what in _KEYS]
    close = el("form", el("button", "close"), method="dialog")
    return el("dialog", el("h2", "Keys"), el("table", el("tbody", rows)), close, id="help")
