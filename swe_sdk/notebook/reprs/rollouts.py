"""Many rollouts: the first of them as a table."""

from __future__ import annotations

from swe_sdk.notebook.amounts import many, seconds
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Cell, Table, View, Word
from swe_sdk.notebook.palette import STATUS, Style, style_of
from swe_sdk.notebook.reprs.outcomes import why_cell
from swe_sdk.runs.rollouts import Rollouts
from swe_sdk.store.rows import RolloutRow

_HEAD = ("status", "rollout", "reward", "why", "attempt", "steps", "spent", "parked")
_GOING_ON = ("running", "parked", "retrying")


def rollouts_view(rollouts: Rollouts) -> View:
    """A table of the first ones."""
    table = rollouts_table(rollouts)
    return View((Word("Rollouts", "strong"), f" {many(table.count, 'rollout')}"), (table,))


def rollouts_table(rollouts: Rollouts, *, is_over: bool = False) -> Table:
    """The first ones, in the order in which they were queued; ``is_over``: nobody works on them any more."""
    rows = [_row(rollout.row, is_over) for rollout in rollouts.page(1, SHOWN_ROWS)]
    return Table(_HEAD, rows, max(len(rollouts), len(rows)))


def status_style(status: str, *, is_over: bool) -> Style:
    """What was going on when its run ended is cut off."""
    cut = is_over and status in _GOING_ON
    return STATUS["stopped"].named("cut off") if cut else style_of(STATUS, status)


def _row(row: RolloutRow, is_over: bool) -> tuple[Cell, ...]:
    reward = "" if row.reward is None or row.status == "masked" else f"{row.reward:.1f}"
    why = why_cell(row.mask_kind, row.mask_stage, row.reason)
    status = Badge(status_style(row.status, is_over=is_over))
    times = (seconds(row.spent_s), seconds(row.parked_s) if row.parked_s else "")
    return status, Word(row.rollout_id, "code"), reward, why, row.attempt, row.steps, *times
