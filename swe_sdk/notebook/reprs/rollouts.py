"""Many rollouts: the first of them as a table."""

from __future__ import annotations

from swe_sdk.notebook.amounts import many, seconds
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Cell, Table, View, Word
from swe_sdk.notebook.palette import ROLLOUT, style_of
from swe_sdk.notebook.reprs.outcomes import why_cell
from swe_sdk.runs.rollout import Rollout
from swe_sdk.runs.rollouts import Rollouts

_HEAD = ("status", "rollout", "reward", "why", "attempt", "steps", "spent", "parked")


def rollouts_view(rollouts: Rollouts) -> View:
    """A table of the first ones."""
    table = rollouts_table(rollouts)
    return View((Word("Rollouts", "strong"), f" {many(table.count, 'rollout')}"), (table,))


def rollouts_table(rollouts: Rollouts) -> Table:
    """The first ones, in the order in which they were queued."""
    rows = [_row(rollout) for rollout in rollouts.page(1, SHOWN_ROWS)]
    return Table(_HEAD, rows, max(len(rollouts), len(rows)))


def _row(rollout: Rollout) -> tuple[Cell, ...]:
    row = rollout.row
    reward = "" if row.reward is None or row.status == "masked" else f"{row.reward:.1f}"
    why = why_cell(row.mask_kind, row.mask_stage, row.reason)
    status = Badge(style_of(ROLLOUT, rollout.word))
    times = (seconds(row.spent_s), seconds(row.parked_s) if row.parked_s else "")
    return status, Word(row.rollout_id, "code"), reward, why, row.attempt, row.steps, *times
