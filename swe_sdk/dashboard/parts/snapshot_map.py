"""Snapshots on a line of time, with the checkpoints that refer to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from swe_sdk.dashboard.components import (
    Column,
    card,
    offset_of,
    pager,
    table,
    tabs,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.keeping import Standing
from swe_sdk.dashboard.show import ago, count, pill, size, when
from swe_sdk.dashboard.spans import Mark, Scale, span_row
from swe_sdk.store.rows import CheckpointRow, RunRow, SnapshotRow

_ROWS = 40
_SHOWN: Mapping[str, tuple[Standing, ...]] = {
    "current": ("kept", "leaked", "violated", "saving"),
    "leaked": ("leaked",),
    "violated": ("violated",),
    "released": ("released", "violated"),
    "all": ("kept", "released", "leaked", "violated", "saving"),
}


_ORDER: Mapping[str, int] = {"violated": 0, "leaked": 1, "saving": 2, "kept": 3, "released": 4}


def map_card(
    context: Context,
    row: RunRow,
    found: Sequence[CheckpointRow],
    snapshots: Sequence[SnapshotRow],
    stands: Mapping[str, Standing],
) -> Html:
    """A row for each snapshot of the run that the state asks for, those in trouble first."""
    numbers = Counter(stands.values())
    names = [(name, f"{name} {count(sum(numbers[word] for word in words))}") for name, words in _SHOWN.items()]
    first = "current" if any(numbers[word] for word in _SHOWN["current"]) else "all"
    which = context.state.get("show", first, among=_SHOWN)
    chosen = [each for each in snapshots if stands[each.snapshot_id] in _SHOWN[which]]
    chosen.sort(key=lambda each: (_ORDER[stands[each.snapshot_id]], each.taken_at or 0.0, each.snapshot_id))
    rows = chosen[offset_of(context, _ROWS) :][:_ROWS]
    scale = _scale(context, row, found, snapshots)
    marks = [
        Mark(each.saved_at, f"{each.checkpoint_id}: {each.state}", each.state == "kept")
        for each in found
        if each.saved_at is not None
    ]
    times = {each.checkpoint_id: (each.saved_at, each.state) for each in found}
    shown = (
        Column[SnapshotRow]("snapshot", lambda each: el("span", cut(each.snapshot_id, 28), cls="mono")),
        Column[SnapshotRow]("", lambda each: pill("snapshot", stands[each.snapshot_id], title=_why(each, times))),
        Column[SnapshotRow](
            "of", lambda each: context.rollout_link(row.run, each.rollout_id) if each.rollout_id else None, cls="narrow"
        ),
        Column[SnapshotRow]("size", lambda each: size(each.size_bytes), cls="num"),
        Column[SnapshotRow]("needed by", _needed, cls="num", hint="kept of all checkpoints that refer to it"),
        Column[SnapshotRow]("taken", lambda each: ago(each.taken_at), cls="num roomy"),
        Column[SnapshotRow](
            join(when(scale.since), when(scale.until)),
            lambda each: _span(each, scale, marks, times, stands[each.snapshot_id]),
            cls="grow span-cell",
        ),
    )
    listed = table(
        context, shown, rows, key=lambda each: each.snapshot_id, label="snapshots", nothing="no snapshot is like that"
    )
    told = "each line is a checkpoint: solid = kept, dotted = released; a dot refers to the snapshot"
    below = pager(context, len(chosen), page_rows=_ROWS, what="snapshots")
    switch = tabs(context, names, which, field="show")
    return card("Snapshots over time", switch, listed, below, note=told, cls="wide", key="map")


def _scale(context: Context, row: RunRow, found: Sequence[CheckpointRow], snapshots: Sequence[SnapshotRow]) -> Scale:
    times = [at for each in snapshots for at in (each.taken_at, each.released_at) if at is not None]
    times += [each.saved_at for each in found if each.saved_at is not None]
    since = row.started_at or min(times, default=context.now)
    until = row.ended_at or row.updated_at or max(times, default=context.now)
    return Scale(min([since, *times]), max([until, *times]))


def _span(
    each: SnapshotRow,
    scale: Scale,
    marks: Sequence[Mark],
    times: Mapping[str, tuple[float | None, str]],
    word: Standing,
) -> Html:
    dots = []
    for name in each.referenced_by:
        at, state = times.get(name, (None, ""))
        if at is not None:
            dots.append((at, state == "kept", f"{name}: {state}"))
    start = each.taken_at if each.taken_at is not None else scale.since
    end = each.released_at if each.released_at is not None else scale.until
    colour = ("checkpoint", "saving") if word == "saving" else ("snapshot", word)
    return span_row(
        scale, marks, (start, max(start, end)), colour, dots, label=f"{each.snapshot_id}: {_why(each, times)}"
    )


def _why(each: SnapshotRow, times: Mapping[str, tuple[float | None, str]]) -> str:
    match each.trouble:
        case "leak":
            unfinished = [name for name in each.referenced_by if times.get(name, (None, ""))[0] is None]
            told = f": {unfinished[0]} was never complete" if unfinished else ""
            return f"there, though no kept checkpoint refers to it{told}"
        case "violation":
            return f"released ({each.release_reason}), though {', '.join(each.kept_by[:3])} refers to it"
    if each.released_at is not None:
        return f"released: {each.release_reason}"
    return f"kept by {', '.join(each.kept_by[:3])}"


def _needed(each: SnapshotRow) -> Child:
    return [count(len(each.kept_by)), el("span", f" of {len(each.referenced_by)}", cls="dim")]


def snapshot_number(word: str, number: int) -> Child:
    """How many snapshots stand like that, in colour where there are any."""
    return pill("snapshot", word, label=count(number)) if number else count(0)
