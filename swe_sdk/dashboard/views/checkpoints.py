"""Checkpoints: what was saved when, how long everything stood, what can be restored, and what it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from swe_sdk.dashboard.choose_run import choose_run
from swe_sdk.dashboard.columns import Column as Bar
from swe_sdk.dashboard.columns import axis, columns, legend
from swe_sdk.dashboard.components import (
    Column,
    card,
    empty,
    heading,
    notice,
    pager,
    png_button,
    stats,
    table,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html, cut, el, join
from swe_sdk.dashboard.parts.one_checkpoint import checkpoint_card
from swe_sdk.dashboard.parts.parked import parked_mark, parked_notice
from swe_sdk.dashboard.parts.restoring import restoring, restoring_pulse
from swe_sdk.dashboard.run_state import state_of
from swe_sdk.dashboard.show import DASH, ago, count, pill, seconds, size, when
from swe_sdk.dashboard.view import View
from swe_sdk.store.rows import CheckpointPhaseRow, CheckpointRow, RunRow

_ROWS = 25
_MOST_COLUMNS = 120
_OPERATIONS: Mapping[str, tuple[str, str, str]] = {
    "prepare": ("budget", "parked", "prepare: until everything stands"),
    "commit": ("checkpoint", "saving", "commit: sandboxes are frozen, records written"),
    "resume": ("checkpoint", "kept", "resume: everything goes on"),
}
"""Of a save: the colour of each operation, and what it is."""
_WHAT = (
    "A checkpoint is a cut through everything that is under way. While it is taken, rollouts stand, and their budgets "
    "with them; a killed run goes on from the newest one that is whole."
)


def _render(context: Context) -> Html:
    run = context.run
    if run is None:
        return join(heading("Checkpoints", _WHAT), _choose(context))
    row = context.index.run(run)
    found = context.index.checkpoints(run)
    head = join(heading(["Checkpoints of ", cut(run, 80)], _WHAT), parked_notice(row))
    if not found:
        return join(head, _nothing(row))
    phases = context.index.checkpoint_phases(run=run)
    chosen = context.state.get("checkpoint")
    detail = [each for each in found if each.checkpoint_id == chosen]
    missing = notice(f"There is no checkpoint {cut(chosen, 80)} in this run.", kind="warn")
    return join(
        head,
        restoring(context, row, found),
        missing if chosen and not detail else None,
        checkpoint_card(context, row, detail[0], phases) if detail else None,
        el("section", _stats(found, phases), cls="card"),
        _stood(context, found, phases),
        _failed(context, phases),
        _list(context, found),
    )


def _choose(context: Context) -> Html:
    every = context.index.checkpoints()
    if not every:
        return _nothing(None)
    kept, saved = Counter(row.run for row in every if row.state == "kept"), Counter(row.run for row in every)
    more = [
        Column[RunRow]("checkpoints", lambda row: count(saved[row.run]), cls="num"),
        Column[RunRow]("can be restored", lambda row: count(kept[row.run]), cls="num"),
        Column[RunRow]("parked now", lambda row: parked_mark([row]) or DASH, cls="num"),
    ]
    return choose_run(context, more, among=lambda row: saved[row.run] > 0, note="runs that have saved themselves")


def _nothing(row: RunRow | None) -> Html:
    why = "A run that saves itself now and then survives its process: it goes on from there instead of starting over."
    if row is not None and state_of(row).is_going:
        why += " This one goes on, and has saved nothing yet."
    return empty("No checkpoint", why, "swe-sdk run mini --agent mini-swe-agent --checkpoint-every 5m")


# -- all of them -------------------------------------------------------------------------------------------------------


def _stats(found: Sequence[CheckpointRow], phases: Sequence[CheckpointPhaseRow]) -> Html:
    states = Counter(row.state for row in found)
    took = sorted(row.seconds for row in found if row.seconds is not None)
    middle = took[len(took) // 2] if took else None
    return stats(
        ("can be restored", count(states["kept"])),
        ("released", count(states["released"])),
        ("not complete", count(states["saving"])),
        ("everything stood, median", seconds(middle)),
        ("longest", seconds(took[-1]) if took else DASH),
        ("saves that failed", count(sum(not phase.ok for phase in phases))),
    )


def _stood(context: Context, found: Sequence[CheckpointRow], phases: Sequence[CheckpointPhaseRow]) -> Html | None:
    """How long each save held everything up, operation by operation."""
    took: dict[str, dict[str, float]] = {}
    for phase in phases:
        if phase.operation in _OPERATIONS and phase.ok and not phase.participant:
            took.setdefault(phase.checkpoint_id, {})[phase.operation] = phase.seconds
    shown = [row for row in found if row.checkpoint_id in took][-_MOST_COLUMNS:]
    if not shown:
        return None
    bars = [_bar(context, row, took[row.checkpoint_id]) for row in shown]
    drawing = columns(bars, label="seconds for which everything stood", key="checkpoint-phases", unit=" s", height=120)
    below = axis(when(shown[0].saved_at), when(shown[-1].saved_at))
    colours = legend([_OPERATIONS[name] for name in _OPERATIONS])
    return card(
        "How long everything stood",
        drawing,
        below,
        colours,
        note=[png_button("checkpoint-phases"), "a column a checkpoint; parked time is charged to no budget"],
        cls="wide",
    )


def _bar(context: Context, row: CheckpointRow, took: Mapping[str, float]) -> Bar:
    parts = [(*_OPERATIONS[name][:2], float(took.get(name, 0.0))) for name in _OPERATIONS]
    told = ", ".join(f"{name} {took.get(name, 0.0):.2f} s" for name in _OPERATIONS)
    target = context.href(checkpoint=row.checkpoint_id)
    return Bar(parts, title=f"{row.checkpoint_id} ({row.state}): {told}", href=target)


def _failed(context: Context, phases: Sequence[CheckpointPhaseRow]) -> Html | None:
    failed = [phase for phase in phases if not phase.ok][-20:]
    if not failed:
        return None
    shown = (
        Column[CheckpointPhaseRow]("when", lambda phase: ago(phase.at)),
        Column[CheckpointPhaseRow]("operation", lambda phase: phase.operation),
        Column[CheckpointPhaseRow]("checkpoint", lambda phase: cut(phase.checkpoint_id, 60)),
        Column[CheckpointPhaseRow]("why", lambda phase: cut(phase.message, 300), cls="wrap grow-wrap"),
    )
    listed = table(context, shown, failed, key=lambda phase: f"{phase.checkpoint_id}-{phase.at}", label="failed saves")
    return card("Saves that failed", listed, note="the run goes on without them", cls="wide")


def _list(context: Context, found: Sequence[CheckpointRow]) -> Html:
    went_on = context.index.restores(context.run)
    page = context.state.page
    newest = list(reversed(found))[(page - 1) * _ROWS : page * _ROWS]
    shown = (
        Column[CheckpointRow]("checkpoint", lambda row: row.checkpoint_id, cls="grow"),
        Column[CheckpointRow]("state", lambda row: pill("checkpoint", row.state, title=row.state_reason or None)),
        Column[CheckpointRow]("saved", lambda row: ago(row.saved_at), cls="num"),
        Column[CheckpointRow]("records", lambda row: count(row.records), cls="num"),
        Column[CheckpointRow]("snapshots", lambda row: count(row.snapshots), cls="num"),
        Column[CheckpointRow]("restarts", lambda row: count(row.restarts), cls="num", hint="rollouts that start over"),
        Column[CheckpointRow]("stood", lambda row: seconds(row.seconds), cls="num", hint="while it was taken"),
        Column[CheckpointRow]("on disk", lambda row: size(row.size_bytes), cls="num", hint="its records alone"),
        Column[CheckpointRow](
            "went on from it", lambda row: count(went_on.get(row.checkpoint_id) or None), cls="num", hint="attempts"
        ),
    )

    def href(row: CheckpointRow) -> str:
        chosen = context.state.get("checkpoint") == row.checkpoint_id
        return context.href(checkpoint=None if chosen else row.checkpoint_id, page=page)

    listed = table(context, shown, newest, key=lambda row: row.checkpoint_id, href=href, label="checkpoints")
    below = pager(context, len(found), page_rows=_ROWS, what="checkpoints")
    return card("All of them", listed, below, note="the newest first; choose one to see what it holds", cls="wide")


VIEW = View(
    "checkpoints",
    "Checkpoints",
    _render,
    hint="what was saved, what can be restored, and what it holds",
    pulse=restoring_pulse,
)
