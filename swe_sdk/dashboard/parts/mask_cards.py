"""Cards about masks: which kinds there are, when they came, what to do about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from swe_sdk.dashboard.advice import advice_on
from swe_sdk.dashboard.columns import Column as Bar
from swe_sdk.dashboard.columns import axis, columns, legend
from swe_sdk.dashboard.components import (
    Column,
    bar,
    card,
    copy_button,
    png_button,
    table,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el
from swe_sdk.dashboard.run_state import state_of
from swe_sdk.dashboard.show import count, pill, when
from swe_sdk.notebook.palette import MASK_GROUP, MASK_GROUP_OF
from swe_sdk.store.rows import RunRow
from swe_sdk.store.sum_rows import MaskCell, MaskTimes

BUCKETS = 72
"""Columns of the drawing over time."""


_MOST_KINDS = 12


class _Kind(NamedTuple):
    """One row of the table of kinds."""

    kind: str
    final: int
    retried: int
    worth_it: int
    stages: tuple[str, ...]


def kinds_card(context: Context, cells: Sequence[MaskCell]) -> Html:
    """Kinds, those that are chosen and the most frequent ones first; each is a link that chooses it."""
    every = _kind_rows(cells)
    chosen = context.state.mask_kind
    rows = [row for row in every if row.kind in chosen] + [row for row in every if row.kind not in chosen]
    rows, left_out = rows[:_MOST_KINDS], len(rows) - _MOST_KINDS
    most = max(row.final + row.retried for row in rows)
    shown = (
        Column[_Kind]("kind", lambda row: pill("mask", row.kind, title=advice_on(row.kind).meaning)),
        Column[_Kind]("in", lambda row: cut(", ".join(row.stages), 30), cls="narrow dim"),
        Column[_Kind]("", lambda row: bar([("mask", row.kind, row.final + row.retried)], total=most), cls="bar-cell"),
        Column[_Kind]("masked", lambda row: count(row.final), cls="num", hint="rollouts that ended with it"),
        Column[_Kind]("retried", lambda row: count(row.retried), cls="num", hint="attempts that were tried again"),
    )

    def href(row: _Kind) -> str:
        return context.href(mask_kind=() if chosen == (row.kind,) else (row.kind,))

    listed = table(context, shown, rows, key=lambda row: row.kind, href=href, label="masks by kind")
    more = f"; {left_out} more kinds below" if left_out > 0 else ""
    return card("By kind", listed, note=f"choose one to see what to do about it{more}", key="kinds")


def _kind_rows(cells: Sequence[MaskCell]) -> list[_Kind]:
    of_kind: dict[str, list[MaskCell]] = {}
    for cell in cells:
        of_kind.setdefault(cell.kind, []).append(cell)
    rows = [_kind_row(kind, found) for kind, found in of_kind.items()]
    return sorted(rows, key=lambda row: (-row.final - row.retried, row.kind))


def _kind_row(kind: str, cells: Sequence[MaskCell]) -> _Kind:
    final = sum(cell.attempts for cell in cells if cell.is_final)
    worth_it = sum(cell.attempts for cell in cells if cell.is_final and cell.retryable)
    stages = tuple(dict.fromkeys(cell.stage for cell in cells))
    return _Kind(kind, final, sum(cell.attempts for cell in cells) - final, worth_it, stages)


def time_card(times: MaskTimes) -> Html:
    """When attempts were masked, in the colours of what their masks have to do with."""
    found: dict[int, Counter[str]] = {}
    for bucket in times.buckets:
        found.setdefault(bucket.bucket, Counter())[MASK_GROUP_OF.get(bucket.kind, "")] += bucket.attempts
    groups = [group for group in (*MASK_GROUP, "") if any(group in counts for counts in found.values())]
    bars = [_bucket(groups, found.get(number, Counter())) for number in range(BUCKETS)]
    end = times.since + times.width_s * BUCKETS
    shown = [("mask-group", group, MASK_GROUP[group].label if group else "other") for group in groups]
    drawing = columns(bars, label="masked attempts over time", key="masks-over-time")
    below = axis(when(times.since), when((times.since + end) / 2), when(end))
    note = [png_button("masks-over-time"), "many at one moment have one cause"]
    return card("Over time", drawing, below, legend(shown), note=note, key="over-time")


def _bucket(groups: Sequence[str], counts: Counter[str]) -> Bar:
    told = ", ".join(f"{MASK_GROUP[group].label if group else 'other'} {counts[group]}" for group in groups)
    return Bar([("mask-group", group, counts[group]) for group in groups], title=f"{counts.total()} masked: {told}")


def advice_card(kind: str) -> Html:
    """What a kind means, and what to do about it."""
    advice = advice_on(kind)
    command = el("p", el("code", advice.command), copy_button(advice.command)) if advice.command else None
    return card(
        [pill("mask", kind), " what to do"],
        el("p", advice.meaning),
        el("p", advice.remedy),
        command,
        key="advice",
    )


def is_chosen(context: Context, cell: MaskCell) -> bool:
    """Whether the state is about masks of its kind, in its stage."""
    state = context.state
    return cell.kind in (state.mask_kind or (cell.kind,)) and cell.stage in (state.mask_stage or (cell.stage,))


def retry_card(context: Context, cells: Sequence[MaskCell]) -> Html | None:
    """Runs with masks that are worth another attempt, and the command for each."""
    worth_it = Counter[str]()
    for cell in cells:
        if cell.is_final and cell.retryable and is_chosen(context, cell):
            worth_it[cell.run] += cell.attempts
    if not worth_it:
        return None
    rows = {row.run: row for row in context.all_runs}
    found = [(rows[run], number) for run, number in worth_it.most_common(8) if run in rows]
    shown = (
        Column[tuple[RunRow, int]]("run", lambda pair: cut(pair[0].run, 60), cls="grow"),
        Column[tuple[RunRow, int]]("masked", lambda pair: count(pair[1]), cls="num"),
        Column[tuple[RunRow, int]]("", lambda pair: _retry_command(pair[0])),
    )
    listed = table(context, shown, found, key=lambda pair: pair[0].run, label="masks worth another attempt")
    note = "all of the run's masks whose policy says so; finished rollouts stay as they are"
    return card("Worth another attempt", listed, note=note, key="retry")


def _retry_command(run: RunRow) -> Child:
    if state_of(run).is_going:
        return el("span", "when it is over", cls="dim", title="a run under way cannot be resumed")
    return copy_button(f"swe-sdk resume {run.path} --retry-masked", "copy command")
