"""Which checkpoint a run would go on from, as a resume would find out: the newest one that is whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from swe_sdk.dashboard.asked import Asked
from swe_sdk.dashboard.components import copy_button, notice
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html, cut, el, join
from swe_sdk.dashboard.keeping import restorable
from swe_sdk.dashboard.run_state import state_of
from swe_sdk.dashboard.show import ago, count, many
from swe_sdk.errors import SweError
from swe_sdk.runs.checkpoints.view import Checkpoints
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import CheckpointRow, RunRow

_READ_EVERY_S = 15.0


class _Held(NamedTuple):
    """What a checkpoint holds, counted. The states of agents in it may be large, and are not kept."""

    stages: tuple[tuple[str, int], ...]
    """With which stage how many rollouts go on."""
    boxes: int


class _Tried(NamedTuple):
    """One of them, looked at: what it holds, or why it cannot be restored; neither while it is being read."""

    row: CheckpointRow
    held: _Held | None = None
    trouble: str = ""
    lost: int = 0
    """Snapshots that it needs, and that were deleted."""


def _read(key: Hashable) -> _Held:
    """Every record is read, and compared with its digest; a ``SweError`` where something of it is not there."""
    index, path, checkpoint_id = cast(tuple[RunIndex, str, str], key)
    held = Checkpoints(Path(path), index)[checkpoint_id].inspect()
    stages = Counter(one.next for one in held)
    return _Held(tuple(stages.most_common()), sum(one.snapshot is not None for one in held))


_reading = Asked(_read, _READ_EVERY_S)


def restoring(context: Context, row: RunRow, found: Sequence[CheckpointRow]) -> Html:
    """The answer, in a line; above it those that a resume would pass over, and why."""
    if not restorable(found):
        why = "all were released" if any(each.state == "released" for each in found) else "none is complete"
        over = ": every rollout is finished, and nobody goes on from one" if row.end_reason == "finished" else ""
        return notice(el("b", "Nothing to restore: "), why, over, ".")
    tried = list(_tried(context, row, found, wait_s=0.3))
    passed_over = [_passed_over(context, each) for each in tried if each.trouble or each.lost]
    last = tried[-1]
    if last.trouble or last.lost:
        end = notice("No checkpoint of this run can be restored: it would start over.", kind="bad")
    elif last.held is None:
        end = notice(last.row.checkpoint_id, " is being read.")
    else:
        end = _line(context, row, last.row, last.held)
    return join(passed_over, end)


def restoring_pulse(context: Context) -> object:
    """Changes when the answer does: files are damaged, or mended, without a word in the journal."""
    run = context.run
    if run is None or run not in {row.run for row in context.all_runs}:
        return ""
    found = context.index.checkpoints(run)
    return hash(tuple(_tried(context, context.index.run(run), found, wait_s=0.0)))


def _tried(context: Context, row: RunRow, found: Sequence[CheckpointRow], wait_s: float) -> Iterator[_Tried]:
    """The newest first, until one can be restored, or is still being read."""
    snapshots = context.once(("snapshots", row.run), lambda: context.index.snapshots(row.run))
    lost = Counter(name for each in snapshots if each.released_at is not None for name in each.kept_by)
    for each in restorable(found):
        one = _Tried(each, lost=lost[each.checkpoint_id])
        if not one.lost:
            one = _looked_at(context, row, one, wait_s)
        yield one
        if not one.trouble and not one.lost:
            return


def _looked_at(context: Context, row: RunRow, one: _Tried, wait_s: float) -> _Tried:
    try:
        answer = _reading((context.index, row.path, one.row.checkpoint_id), wait_s)
    except (SweError, OSError, ValueError) as error:
        return one._replace(trouble=cut(error, 300))
    return one if answer is None else one._replace(held=answer.found)


def _passed_over(context: Context, one: _Tried) -> Html:
    name = one.row.checkpoint_id
    if one.trouble:
        return notice(f"{name} cannot be restored: {one.trouble}", kind="bad")
    link = context.link("See retention", view="retention", show="violated")
    told = f"{name} cannot be restored: {many(one.lost, 'snapshot')} that it needs"
    return notice(f"{told} {'was' if one.lost == 1 else 'were'} deleted. ", link, kind="bad")


def _line(context: Context, row: RunRow, each: CheckpointRow, held: _Held) -> Html:
    told = ", ".join(f"{count(number)} with {stage}" for stage, number in held.stages)
    number = sum(number for _stage, number in held.stages)
    more = "" if each.restarts == 0 else f", {count(each.restarts)} start over"
    command = f"swe-sdk resume {row.path}"
    return notice(
        el("b", "Can be restored: "),
        context.link(each.checkpoint_id, checkpoint=each.checkpoint_id),
        ", saved ",
        ago(each.saved_at),
        f". {many(number, 'rollout')} go on ({told or 'none'}){more}; {count(held.boxes)} need a snapshot. ",
        "Every record was read and fits. ",
        el("span", " If its process dies: ", cls="dim") if state_of(row).is_going else None,
        el("code", command),
        copy_button(command),
    )
