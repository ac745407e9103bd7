"""One checkpoint: how long each phase took, which rollouts it holds, which snapshots it needs."""

from __future__ import annotations

from collections.abc import Sequence

from swe_sdk.notebook.amounts import many, moment, seconds, size
from swe_sdk.notebook.blocks import Badge, Bar, Cell, Facts, Segment, Table, View, Word
from swe_sdk.notebook.palette import CHECKPOINT, SNAPSHOT, STAGE, STATUS, Style, style_of
from swe_sdk.notebook.reprs.checkpoints import PHASES
from swe_sdk.runs.checkpoints.view import Checkpoint
from swe_sdk.store.rows import CheckpointRolloutRow, SnapshotRow

_PHASES: dict[str, Style] = {
    "prepare": STATUS["parked"].named("prepare"),
    "commit": STAGE["invoke_agent"].named("commit", "●"),
    "resume": STAGE["verify"].named("resume", "▶"),
}
_TROUBLE = {"leak": "leaked", "violation": "violated"}


def checkpoint_view(checkpoint: Checkpoint) -> View:
    """Phases, rollouts, snapshots."""
    status = Badge(style_of(CHECKPOINT, checkpoint.status))
    title = (
        status,
        " ",
        Word(checkpoint.id, "strong"),
        Word(f"  {moment(checkpoint.created_at.timestamp())}", "muted"),
    )
    score = None if checkpoint.score is None else f"{checkpoint.score:.3f}"
    facts = Facts(
        (
            ("rollouts", checkpoint.records.get("rollouts", 0)),
            ("restarts", len(checkpoint.restarts)),
            ("records", size(checkpoint.bytes)),
            ("mean reward then", score),
            ("path", Word(str(checkpoint.path), "code")),
        )
    )
    snapshots = checkpoint.snapshot_rows()
    return View(title, (facts, _phases(checkpoint), _rollouts(checkpoint.rollouts), _snapshots(snapshots)))


def _phases(checkpoint: Checkpoint) -> Bar | None:
    spent = checkpoint.phases_s
    segments = tuple(Segment(_PHASES[name], spent[name], seconds(spent[name])) for name in PHASES if name in spent)
    return Bar(segments, f"phases {seconds(sum(spent.values()))}") if segments else None


def _rollouts(rows: Sequence[CheckpointRolloutRow]) -> Table | None:
    head = ("held", "rollout", "attempt", "goes on with", "spent", "steps", "why not")
    return Table(head, [_rollout(row) for row in rows], title="rollouts") if rows else None


def _rollout(row: CheckpointRolloutRow) -> tuple[Cell, ...]:
    held = Badge(CHECKPOINT["kept"], "saved") if row.held == "saved" else Badge(STATUS["retrying"], "restart")
    work = (seconds(row.spent_s), row.steps)
    return held, Word(row.rollout_id, "code"), row.attempt, row.boundary, *work, row.reason


def _snapshots(rows: Sequence[SnapshotRow]) -> Table | None:
    head = ("state", "snapshot", "of rollout", "size", "taken under", "needed by kept", "released because")
    title = f"{many(len(rows), 'snapshot')} that it refers to"
    return Table(head, [_snapshot(row) for row in rows], title=title) if rows else None


def _snapshot(row: SnapshotRow) -> tuple[Cell, ...]:
    state = _TROUBLE.get(row.trouble or "", "kept" if row.released_at is None else "released")
    needed = f"{len(row.kept_by)} of {many(len(row.referenced_by), 'checkpoint')}"
    reason = row.release_reason if row.released_at is not None else ""
    names = (Word(row.snapshot_id, "code"), Word(row.rollout_id, "code"))
    return (
        Badge(style_of(SNAPSHOT, state)),
        *names,
        "" if row.size_bytes is None else size(row.size_bytes),
        row.checkpoint_id,
        needed,
        reason,
    )
