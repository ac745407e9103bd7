"""What a provider really has of a run's snapshots."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from pathlib import Path

import anyio

from swe_sdk.dashboard.asked import Asked
from swe_sdk.dashboard.components import (
    Column,
    card,
    notice,
    table,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el
from swe_sdk.dashboard.parts.snapshot_map import snapshot_number
from swe_sdk.dashboard.show import ago, count
from swe_sdk.errors import SweError
from swe_sdk.runs.checkpoints.snapshots import RunSnapshots, run_snapshots
from swe_sdk.store.rows import RunRow

_ASK_EVERY_S = 10.0


def _ask(key: Hashable) -> list[RunSnapshots]:
    return anyio.run(partial(run_snapshots, Path(str(key))))


_audits = Asked(_ask, _ASK_EVERY_S)


def audit_card(context: Context, row: RunRow) -> Html:
    """Asks where the state says so, and shows the answer; else it offers to ask."""
    note = "changes nothing of the run; opening a provider cleans up after dead programs, here as everywhere"
    if not context.state.get("audit"):
        ask = context.link("Ask the provider", audit="1", cls="button main")
        why = "The map is what the run wrote down. Its provider can be asked which snapshots it really has."
        return card("Audit", el("p", why), el("p", ask), note=note, cls="wide", key="audit")
    try:
        answer = _audits(row.path)
    except (SweError, OSError, ExceptionGroup) as error:
        return card("Audit", notice(f"The provider could not be asked: {cut(error, 300)}", kind="bad"), cls="wide")
    if answer is None:
        return card("Audit", el("p", "The provider is being asked."), note=note, cls="wide", key="audit")
    if not answer.found:
        return card("Audit", el("p", "No snapshot was ever made for this run, says its index.", cls="dim"), cls="wide")
    shown = (
        Column[RunSnapshots]("provider", lambda one: one.provider or "?"),
        Column[RunSnapshots]("needed, there", lambda one: count(len(one.found.needed)), cls="num"),
        Column[RunSnapshots]("orphans", lambda one: snapshot_number("leaked", len(one.found.unneeded)), cls="num"),
        Column[RunSnapshots]("missing", lambda one: snapshot_number("violated", len(one.found.missing)), cls="num"),
        Column[RunSnapshots]("", lambda one: _audit_words(one), cls="wrap grow-wrap"),
    )
    listed = table(context, shown, answer.found, key=lambda one: one.provider, label="audit")
    command = f"swe-sdk snapshots {row.path}"
    told = el("p", "asked ", ago(answer.at), ". ", context.link("hide", audit=None), " ", el("code", command))
    return card("Audit", listed, told, note=note, cls="wide", key="audit")


def _audit_words(one: RunSnapshots) -> Child:
    if one.skipped:
        return cut(one.skipped, 200)
    parts = [
        (one.found.unneeded, "there, needed by no kept checkpoint"),
        (one.found.missing, "gone, and a kept checkpoint needs them"),
        (one.found.forgotten, "gone, needed by none: only lines of the index"),
    ]
    return "; ".join(f"{count(len(ids))} {words} ({cut(', '.join(ids[:3]), 90)})" for ids, words in parts if ids)


def audit_pulse(context: Context) -> object:
    """While somebody looks at an audit, it is asked again now and then."""
    if not context.state.get("audit") or context.run is None:
        return ""
    try:
        answer = _audits(context.index.run(context.run).path, wait_s=0.0)
        return None if answer is None else hash(str(answer.found))
    except (SweError, OSError, ExceptionGroup) as error:
        return str(error)
