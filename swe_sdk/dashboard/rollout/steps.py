"""What the agent did, step by step, and what it asked its model."""

from __future__ import annotations

import json

from swe_sdk.dashboard.components import card, empty, pager, tabs
from swe_sdk.dashboard.escape import Child, Html, cut, el, join, plain
from swe_sdk.dashboard.rollout.subject import Subject
from swe_sdk.dashboard.show import count, seconds, when
from swe_sdk.store.rows import ModelCallRow, StepRow

_ROWS = 100
_LONGEST = 20_000
_SIGNS = {"model": "☁", "action": "▶", "message": "✎", "note": "·"}


def steps_tab(subject: Subject) -> Html:
    """A window of the steps, or of the model calls."""
    which = subject.context.state.get("show", "steps", ("steps", "calls"))
    attempt = subject.attempt_row
    calls = attempt.model_calls if attempt is not None else 0
    steps = attempt.steps if attempt is not None else 0
    names = [("steps", ["steps", el("small", count(steps))]), ("calls", ["model calls", el("small", count(calls))])]
    menu = tabs(subject.context, names, which, field="show")
    files = [each for each in subject.artifacts if each.role == "transcript"]
    links = [subject.context.link(cut(each.name, 60), tab="files", file=each.name, show=None) for each in files]
    whole = el("p", "Whole transcripts: ", [[link, " "] for link in links], cls="dim") if links else None
    return join(menu, whole, _calls(subject) if which == "calls" else _steps(subject))


def _steps(subject: Subject) -> Html:
    page = subject.context.index.steps(
        subject.row.rollout_id,
        run=subject.row.run,
        attempt=subject.attempt,
        offset=(subject.context.state.page - 1) * _ROWS,
        limit=_ROWS,
    )
    if not page.total:
        return empty("No steps", "The agent has not said what it does. Its logs are among the files.")
    rows = [_step(row) for row in page.rows]
    return join(
        card(None, el("ol", rows, cls="steps")), pager(subject.context, page.total, page_rows=_ROWS, what="steps")
    )


def _step(row: StepRow) -> Html:
    step = row.step
    summary = "its journal is not there any more" if step is None else cut(step.summary or row.step_kind, 300)
    tokens = f"{count(row.tokens_in)} in, {count(row.tokens_out)} out" if row.tokens_in or row.tokens_out else None
    facts = [el("span", tokens, cls="dim small"), el("span", seconds(row.seconds), cls="dim small took")]
    number = el("span", str(row.n), cls="n")
    sign = el("i", _SIGNS.get(row.step_kind, "·"), title=row.step_kind, cls=f"sign {row.step_kind}")
    moment = el("span", when(row.at), cls="dim small roomy")
    head: list[Child] = [number, sign, el("span", summary, cls="what"), *facts, moment]
    key = f"step-{row.attempt}-{row.n}"
    more = _more(step.summary if step is not None else "", step.data if step is not None else {}, summary)
    if more is None:
        return el("li", el("div", head, cls="step"), key=key)
    return el("li", el("details", el("summary", head, cls="step"), more, key=f"{key}-more"), key=key)


def _more(summary: str, data: dict[str, object], shown: str) -> Html | None:
    """What did not fit on the line."""
    whole = el("pre", plain(summary)[:_LONGEST], cls="evidence") if shown.endswith("…") else None
    parts = [join(el("h4", cut(key, 80)), el("pre", _pretty(value), cls="evidence")) for key, value in data.items()]
    return el("div", whole, parts, cls="step-more") if whole or parts else None


def _pretty(value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False, default=str)
    return plain(
        shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}\n… {len(shown) - _LONGEST:,} characters more"
    )


def _calls(subject: Subject) -> Html:
    page = subject.context.index.model_calls(
        subject.row.rollout_id,
        run=subject.row.run,
        attempt=subject.attempt,
        offset=(subject.context.state.page - 1) * _ROWS,
        limit=_ROWS,
    )
    if not page.total:
        return empty("No model calls", "Calls that go through the SDK's gateway are listed here.")
    head = el("tr", [el("th", name) for name in ("at", "model", "status", "seconds", "tokens in", "out", "tries", "")])
    rows = [_call(row) for row in page.rows]
    body = el("div", el("table", el("thead", head), el("tbody", rows)), cls="table")
    return join(body, pager(subject.context, page.total, page_rows=_ROWS, what="calls"))


def _call(row: ModelCallRow) -> Html:
    call = row.call
    tries, error = (call.tries, cut(call.error, 200)) if call is not None else ("", "")
    cells = (row.model, row.status or "no answer", seconds(row.seconds), count(row.tokens_in), count(row.tokens_out))
    shown = [el("td", when(row.at)), *(el("td", cell) for cell in cells), el("td", tries), el("td", error, cls="wrap")]
    return el("tr", shown, key=f"call-{row.attempt}-{row.at}")
