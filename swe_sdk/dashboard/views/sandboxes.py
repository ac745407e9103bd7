"""Sandboxes: what boxes there are on this machine, whose they are, what they use, and which are stuck."""

from __future__ import annotations

from swe_sdk.dashboard.boxes import Boxes, BoxRow, OwnerRow, boxes, owner_name
from swe_sdk.dashboard.components import (
    PAGE_ROWS,
    Column,
    card,
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
_MOST_OWNERS = 20
_SHORT = 16
"""Characters of an id; it is told apart by fewer."""
_FATES = {"live": "healthy", "kept": "unknown", "due": "unhealthy", "blocked": "unhealthy"}
_WORDS = {"live": "stays", "kept": "stays, for now", "due": "would go", "blocked": "cannot go now"}


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
        el("div", _owners(context, found), _unreachable(found), cls="cards two"),
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
    known = [row.memory_bytes for row in found.owners if row.memory_bytes is not None]
    oldest = min((row.created_at for row in found.rows if row.created_at is not None), default=None)
    return stats(
        ("boxes", count(len(found.rows))),
        ("of live programs", count(sum(row.fate == "live" for row in found.rows))),
        ("stuck or left over", count(sum(bool(row.stuck) for row in found.rows))),
        ("reap would remove", count(found.would_remove)),
        ("memory", size(sum(known)) if known else DASH),
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
        Column[BoxRow]("sign of life", lambda row: ago(row.renewed_at), cls="num roomy"),
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
    return el("span", name[:_SHORT], cls="mono", title=f"{row.handle or 'not there yet'}, lease {row.lease or 'none'}")


def _health(row: BoxRow) -> str:
    return "unhealthy" if row.stuck else _FATES[row.fate]


def _owner(row: BoxRow) -> Child:
    host = row.owner.host if row.owner is not None else row.handle
    return [el("span", cut(owner_name(row), 40), title=f"on {host}"), " ", _lives(row.lives)]


def _reap(row: BoxRow) -> Child:
    if row.fate == "live" and not row.stuck:
        return el("span", "stays", cls="dim", title=row.reason)
    why = row.reason if row.fate == "blocked" else row.stuck or row.reason
    return [el("b", _WORDS[row.fate]), el("span", f": {cut(why, 110)}", cls="dim", title=why) if why else None]


def _owners(context: Context, found: Boxes) -> Html:
    shown = (
        Column[OwnerRow]("program", _program),
        Column[OwnerRow]("", lambda row: _lives(row.lives)),
        Column[OwnerRow]("boxes", lambda row: count(row.boxes), cls="num"),
        Column[OwnerRow]("memory", lambda row: size(row.memory_bytes), cls="num"),
        Column[OwnerRow]("processes", lambda row: count(row.processes), cls="num"),
        Column[OwnerRow]("processor", lambda row: seconds(row.cpu_s), cls="num roomy"),
    )
    listed = table(context, shown, found.owners[:_MOST_OWNERS], key=lambda row: row.name, label="owners")
    left_out = len(found.owners) - _MOST_OWNERS
    note = f"and {count(left_out)} more" if left_out > 0 else "of their boxes together, where the kernel counts them"
    return card("Owners", listed, note=note, key="owners")


def _program(row: OwnerRow) -> Child:
    """Owners of local boxes are named by a lock; its process is known while it lives."""
    is_told = row.pid is None or str(row.pid) in row.name
    return [cut(row.name, 60), None if is_told else el("span", f" process {row.pid}", cls="dim")]


def _lives(lives: bool | None) -> Html:
    word = {True: "lives", False: "dead", None: "not to be seen from here"}[lives]
    return pill("health", {True: "healthy", False: "unhealthy", None: "unknown"}[lives], label=word)


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
