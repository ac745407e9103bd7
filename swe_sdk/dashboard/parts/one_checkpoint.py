"""One checkpoint: what it holds, and what starts over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swe_sdk.dashboard.components import (
    Column,
    card,
    facts,
    notice,
    table,
    tabs,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.keeping import amount
from swe_sdk.dashboard.show import ago, count, in_bytes, many, pill, seconds, size
from swe_sdk.store.rows import CheckpointPhaseRow, CheckpointRolloutRow, CheckpointRow, RunRow, SnapshotRow

_ROWS = 25


def checkpoint_card(context: Context, row: RunRow, each: CheckpointRow, phases: Sequence[CheckpointPhaseRow]) -> Html:
    """All that is known of it."""
    rollouts = context.index.checkpoint_rollouts(each.checkpoint_id, run=row.run)
    snapshots = {
        snapshot.rollout_id: snapshot
        for snapshot in context.index.snapshots(row.run)
        if each.checkpoint_id in snapshot.referenced_by
    }
    saved = [one for one in rollouts if one.held == "saved"]
    restarts = [one for one in rollouts if one.held == "restart"]
    names = (("", f"holds {count(len(saved))}"), ("restarts", f"starts over {count(len(restarts))}"))
    which = context.state.get("holds", among=("", "restarts"))
    body = _restarts(context, row, restarts) if which else _saved(context, row, saved, snapshots)
    about = facts(
        ("state", [pill("checkpoint", each.state), f" {cut(each.state_reason, 200)}"]),
        ("complete", ago(each.saved_at) if each.saved_at else "no: it cannot be restored"),
        ("took", _took(each, phases)),
        ("snapshots", count(len(snapshots)) + in_bytes(amount(snapshots.values()))),
        ("where", each.path or None),
    )
    close = context.link("close", checkpoint=None, holds=None, cls="button ghost")
    lost = [one for one in snapshots.values() if one.released_at is not None]
    warning = None
    if lost and each.state == "kept":
        told = f"{many(len(lost), 'snapshot')} that it needs are gone: it cannot be restored. "
        warning = notice(told, context.link("See retention", view="retention", show="violated"), kind="bad")
    title = el("span", each.checkpoint_id, cls="mono")
    return card(
        title, warning, about, tabs(context, names, which, field="holds"), body, note=close, cls="wide", key="detail"
    )


def _took(each: CheckpointRow, phases: Sequence[CheckpointPhaseRow]) -> str:
    own = [phase for phase in phases if phase.checkpoint_id == each.checkpoint_id]
    told = [
        f"{phase.operation}{f' of {phase.participant}' if phase.participant else ''} {phase.seconds:.2f} s"
        for phase in own
    ]
    return ", ".join(told[:12])


def _saved(
    context: Context, row: RunRow, rollouts: Sequence[CheckpointRolloutRow], snapshots: Mapping[str, SnapshotRow]
) -> Html:
    shown = (
        Column[CheckpointRolloutRow]("rollout", lambda one: context.rollout_link(row.run, one.rollout_id), cls="grow"),
        Column[CheckpointRolloutRow]("attempt", lambda one: count(one.attempt), cls="num"),
        Column[CheckpointRolloutRow]("goes on with", lambda one: pill("stage", one.boundary)),
        Column[CheckpointRolloutRow]("spent", lambda one: seconds(one.spent_s), cls="num"),
        Column[CheckpointRolloutRow]("snapshot", lambda one: _snapshot(snapshots.get(one.rollout_id))),
    )
    return _paged(context, shown, rollouts, "it holds no rollout")


def _snapshot(row: SnapshotRow | None) -> Child:
    if row is None:
        return el("span", "needs none", cls="dim")
    told = pill("snapshot", "violated", label="gone") if row.released_at is not None else None
    return [
        el("span", cut(row.snapshot_id, 40), cls="mono"),
        " ",
        el("span", None if row.size_bytes is None else size(row.size_bytes), cls="dim"),
        " ",
        told,
    ]


def _restarts(context: Context, row: RunRow, rollouts: Sequence[CheckpointRolloutRow]) -> Html:
    shown = (
        Column[CheckpointRolloutRow]("rollout", lambda one: context.rollout_link(row.run, one.rollout_id), cls="grow"),
        Column[CheckpointRolloutRow]("attempt", lambda one: count(one.attempt), cls="num"),
        Column[CheckpointRolloutRow]("why it starts over", lambda one: cut(one.reason, 300), cls="wrap"),
    )
    return _paged(context, shown, rollouts, "every rollout that was under way is held")


def _paged(
    context: Context,
    shown: Sequence[Column[CheckpointRolloutRow]],
    rollouts: Sequence[CheckpointRolloutRow],
    nothing: str,
) -> Html:
    """Its own pages (``part``), beside those of the list of checkpoints."""
    part = context.state.number("part")
    rows = rollouts[part * _ROWS : (part + 1) * _ROWS]
    listed = table(context, shown, rows, key=lambda one: one.rollout_id, label="rollouts in it", nothing=nothing)
    last = max(0, (len(rollouts) - 1) // _ROWS)
    if not last:
        return listed
    before = context.link("← previous", part=part - 1) if part else el("span", "← previous", cls="off")
    after = context.link("next →", part=part + 1) if part < last else el("span", "next →", cls="off")
    told = el("span", f"part {part + 1} of {last + 1}", cls="dim")
    return join(listed, el("nav", told, before, after, cls="pager", aria_label="rollouts in it"))
