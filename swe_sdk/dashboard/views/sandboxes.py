"""Sandboxes: what boxes there are on this machine, whose they are, what they use, and which are stuck."""

from __future__ import annotations

from swe_sdk.dashboard.boxes import Boxes, BoxRow, boxes, owner_name, owners
from swe_sdk.dashboard.components import (
    PAGE_ROWS,
    Column,
    card,
    cards,
    copy_button,
    empty,
    heading,
    notice,
    offset_of,
    pager,
    stats,
    table,
    tabs,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.show import DASH, ago, count, many, pill, seconds, since, size
from swe_sdk.dashboard.view import View
from swe_sdk.errors import SweError

_WHAT = (
    "All boxes of this machine's state directory, of whatever program. A box goes with its owner; what a dead one has "
    "left is removed by the next program, or by swe-sdk reap. Nothing is touched from here."
)
_FATES = {"live": "healthy", "kept": "unknown", "due": "unhealthy"}
_WORDS = {"live": "stays", "kept": "stays, for now", "due": "would go"}


def _render(context: Context) -> Html:
    head = heading("Sandboxes", _WHAT)
    answer = boxes("all")
    if answer is None:
        return join(head, empty("Looking", "The engines of this machine are asked what they have. It takes a moment."))
    found = answer.found
    if not found.rows:
        return join(head, _unreachable(found), _nothing())
    return join(
        head,
        _alarm(found),
        el("section", _stats(found), cls="card"),
        _list(context, found),
        cards(_owners(found), _unreachable(found)),
    )


def _nothing() -> Html:
    return empty(
        "No sandbox is open",
        "While a run goes on, each of its boxes is here: whose it is, how old, and what it uses.",
        "swe-sdk run mini --agent gold",
    )


def _alarm(found: Boxes) -> Html | None:
    stuck = [row for row in found.rows if row.stuck]
    if not stuck and not found.would_remove:
        return None
    told = f"{many(len(stuck), 'box', 'boxes')} stuck or left over; reap would remove {count(found.would_remove)}. "
    command = "swe-sdk reap --dry-run" if not found.would_remove else "swe-sdk reap"
    return notice(told, el("code", command), copy_button(command), kind="warn")


def _stats(found: Boxes) -> Html:
    memory = sum(row.usage.memory_bytes or 0 for row in found.rows)
    known = sum(row.usage.memory_bytes is not None for row in found.rows)
    oldest = min((row.created_at for row in found.rows if row.created_at is not None), default=None)
    return stats(
        ("boxes", count(len(found.rows))),
        ("of live programs", count(sum(row.fate == "live" for row in found.rows))),
        ("stuck or left over", count(sum(bool(row.stuck) for row in found.rows))),
        ("reap would remove", count(found.would_remove)),
        ("memory", [size(memory) if known else DASH, el("small", f" of {count(known)} that are counted")]),
        ("oldest", since(oldest)),
    )


def _list(context: Context, found: Boxes) -> Html:
    which = context.state.get("show", "all", among=("all", "stuck", "live"))
    rows = [row for row in found.rows if which == "all" or bool(row.stuck) == (which == "stuck")]
    page = rows[offset_of(context) :][:PAGE_ROWS]
    shown = (
        Column[BoxRow]("box", _name),
        Column[BoxRow]("provider", lambda row: row.provider),
        Column[BoxRow]("state", lambda row: pill("health", _health(row), label=row.state.replace("_", " "))),
        Column[BoxRow]("owner", _owner),
        Column[BoxRow]("age", lambda row: since(row.created_at), cls="num"),
        Column[BoxRow]("sign of life", lambda row: ago(row.renewed_at), cls="num"),
        Column[BoxRow]("memory", lambda row: size(row.usage.memory_bytes), cls="num"),
        Column[BoxRow]("processes", lambda row: count(row.usage.processes), cls="num roomy"),
        Column[BoxRow]("processor", lambda row: seconds(row.usage.cpu_s), cls="num roomy"),
        Column[BoxRow]("for", lambda row: cut(row.task or row.run, 60), cls="narrow"),
        Column[BoxRow]("reap", _reap, cls="wrap grow-wrap"),
    )
    numbers = {"all": len(found.rows), "stuck": sum(bool(row.stuck) for row in found.rows)}
    numbers["live"] = numbers["all"] - numbers["stuck"]
    switch = tabs(context, [(name, f"{name} {count(numbers[name])}") for name in numbers], which, field="show")
    listed = table(
        context,
        shown,
        page,
        key=lambda row: f"{row.provider}/{row.lease}/{row.handle}",
        label="sandboxes",
        nothing="no box is like that",
    )
    note = ["looked ", ago(found.at)]
    below = pager(context, len(rows), what="boxes")
    return card("Boxes", switch, listed, below, note=note, cls="wide", key="boxes")


def _name(row: BoxRow) -> Child:
    name = row.handle.rpartition("/")[2] or row.lease or "?"
    return el("span", cut(name, 20), cls="mono", title=f"{row.handle or 'not there yet'}, lease {row.lease or 'none'}")


def _health(row: BoxRow) -> str:
    return "unhealthy" if row.stuck else _FATES[row.fate]


def _owner(row: BoxRow) -> Child:
    word = {True: "lives", False: "dead", None: "not to be seen from here"}[row.lives]
    state = {True: "healthy", False: "unhealthy", None: "unknown"}[row.lives]
    return [cut(owner_name(row), 48), " ", pill("health", state, label=word)]


def _reap(row: BoxRow) -> Child:
    why = row.stuck or row.reason
    return [el("b", _WORDS[row.fate]), el("span", f": {cut(why, 240)}", cls="dim") if why else None]


def _owners(found: Boxes) -> Html:
    shown = (
        Column[tuple[str, int, bool | None]]("program", lambda one: cut(one[0], 80), cls="grow"),
        Column[tuple[str, int, bool | None]]("boxes", lambda one: count(one[1]), cls="num"),
        Column[tuple[str, int, bool | None]]("", lambda one: {True: "lives", False: "dead", None: "unknown"}[one[2]]),
    )
    rows = owners(found.rows)[:20]
    body = el(
        "div",
        el(
            "table",
            el("thead", el("tr", [el("th", column.title, cls=column.cls or None) for column in shown])),
            el(
                "tbody",
                [el("tr", [el("td", c.cell(one), cls=c.cls or None) for c in shown], key=one[0]) for one in rows],
            ),
            aria_label="owners",
        ),
        cls="table",
    )
    return card("Owners", body, key="owners")


def _unreachable(found: Boxes) -> Html | None:
    if not found.unreachable:
        return None
    rows = [el("li", el("b", name), f": {cut(why, 300)}") for name, why in sorted(found.unreachable.items())]
    words = "Providers that could not be asked; their boxes are known by their leases only."
    return card("Not asked", el("p", words, cls="dim"), el("ul", rows), key="unreachable")


def _pulse(_context: Context) -> object:
    """Looked at every few seconds while somebody watches; times that only grow make no difference."""
    try:
        answer = boxes("all", wait_s=0.0)
    except SweError as error:
        return error.message
    return None if answer is None else hash(answer.found.model_copy(update={"at": 0.0}).model_dump_json())


VIEW = View(
    "sandboxes", "Sandboxes", _render, hint="boxes on this machine: whose, how old, which are stuck", pulse=_pulse
)
