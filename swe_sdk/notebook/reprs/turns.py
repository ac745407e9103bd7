"""One step of an agent, and one call of its model."""

from __future__ import annotations

import json

from swe_sdk.notebook.amounts import moment, seconds
from swe_sdk.notebook.blocks import Badge, Block, Cell, Facts, Note, Pre, View, Word
from swe_sdk.notebook.palette import STATUS
from swe_sdk.store.rows import ModelCallRow, StepRow

_GONE = Note(STATUS["masked"], "its journal is not there any more: this is all that the index knows of it")


def step_view(row: StepRow) -> View:
    """When it was, what it was, and what was written down about it."""
    title = (Word(f"Step {row.n}", "strong"), f" {row.step_kind}", Word(f"  {seconds(row.seconds)}", "muted"))
    facts = Facts((("attempt", row.attempt), ("at", moment(row.at)), *_tokens(row)))
    if row.step is None:
        return View(title, (facts, _GONE))
    data = json.dumps(row.step.data, indent=1, ensure_ascii=False, default=str) if row.step.data else ""
    return View(title, (facts, *_told(row.step.summary, "summary"), *_told(data, "data")))


def model_call_view(row: ModelCallRow) -> View:
    """Who answered with what, how long that took, and where question and answer are kept."""
    answered = row.status is not None and row.status < 400
    badge = Badge(
        STATUS["resolved" if answered else "unresolved"], "no answer" if row.status is None else f"HTTP {row.status}"
    )
    title = (Word("Model call", "strong"), f" {row.model} ", badge, Word(f"  {seconds(row.seconds)}", "muted"))
    facts: tuple[tuple[str, Cell], ...] = (("attempt", row.attempt), ("at", moment(row.at)), *_tokens(row))
    call = row.call
    if call is None:
        return View(title, (Facts(facts), _GONE))
    tries = call.tries if call.tries > 1 else None
    kept = (("request", call.request), ("response", call.response))
    more = (("route", call.route), ("first byte after", seconds(call.first_byte_s)), ("tries", tries))
    paths = tuple((name, path and Word(path, "code")) for name, path in kept)
    error = Note(STATUS["unresolved"], call.error) if call.error else None
    return View(title, (error, Facts((*facts, *more, *paths))))


def _tokens(row: StepRow | ModelCallRow) -> tuple[tuple[str, int | None], ...]:
    return ("tokens in", row.tokens_in or None), ("tokens out", row.tokens_out or None)


def _told(text: str, name: str) -> tuple[Block, ...]:
    return (Pre(text, name, wrap=True),) if text else ()
