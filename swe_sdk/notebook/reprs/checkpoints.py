"""All checkpoints of a run."""

from __future__ import annotations

from swe_sdk.notebook.amounts import many, moment, seconds
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Cell, Table, View, Word
from swe_sdk.notebook.palette import CHECKPOINT, style_of
from swe_sdk.runs.checkpoints.view import Checkpoint, Checkpoints

PHASES = ("prepare", "commit", "resume")
_HEAD = (
    "status",
    "checkpoint",
    "complete at (UTC)",
    *PHASES,
    "rollouts",
    "restarts",
    "snapshots",
    "reward",
)


def checkpoints_view(checkpoints: Checkpoints) -> View:
    """A row a checkpoint: of many the newest."""
    shown = checkpoints[-SHOWN_ROWS:]
    kept = len(checkpoints.kept)
    title = (Word("Checkpoints", "strong"), f" {many(len(checkpoints), 'checkpoint')}, {kept} kept")
    return View(title, (Table(_HEAD, [_row(each) for each in reversed(shown)], len(checkpoints)),))


def _row(checkpoint: Checkpoint) -> tuple[Cell, ...]:
    phases = (seconds(checkpoint.phases_s.get(name)) for name in PHASES)
    score = "" if checkpoint.score is None else f"{checkpoint.score:.3f}"
    return (
        Badge(style_of(CHECKPOINT, checkpoint.status)),
        Word(checkpoint.id, "code"),
        moment(checkpoint.created_at.timestamp()).removesuffix(" UTC"),
        *phases,
        checkpoint.records.get("rollouts", 0),
        len(checkpoint.restarts) or None,
        checkpoint.snapshots,
        score,
    )
