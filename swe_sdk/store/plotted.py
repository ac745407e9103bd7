"""Numbers for pictures and comparisons of many rollouts: whole columns, and no row of the table is read for them."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.store.database import Database
from swe_sdk.store.events import RolloutStage
from swe_sdk.store.filters import RolloutFilter, where

STAGES: tuple[RolloutStage, ...] = ("seed", "invoke_agent", "close_agent", "verify", "return")


class MaskCount(NamedTuple):
    """How many rollouts ended with masks of one kind in one stage. None: of an import that does not say."""

    kind: str | None
    stage: str | None
    rollouts: int


class BudgetPoint(NamedTuple):
    """The budget of one rollout; ``total_s`` None = without a limit."""

    rollout_id: str
    total_s: float | None
    spent_s: float
    parked_s: float


class StageSpan(NamedTuple):
    """When an attempt was in a stage, in Unix seconds; ``ended_at`` None = it goes on, or was cut off."""

    rollout: int
    """Numbers the rollouts of all runs."""
    rollout_id: str
    attempt: int
    stage: RolloutStage
    started_at: float
    ended_at: float | None


class TaskCount(NamedTuple):
    """How the finished rollouts of one task ended."""

    instance_id: str
    family: str
    resolved: int
    unresolved: int
    masked: int


def task_counts(db: Database, chosen: RolloutFilter) -> list[TaskCount]:
    """Verdicts by task, in the order in which the tasks were queued; one without any is there with noughts."""
    sql, parameters = where(chosen)
    rows = db.rows(
        "SELECT r.instance_id, max(r.family), sum(r.status = 'resolved'), sum(r.status = 'unresolved'), "
        f"sum(r.status = 'masked') FROM rollouts AS r WHERE {sql} GROUP BY r.instance_id ORDER BY min(r.rid)",
        parameters,
    )
    return [TaskCount(*row) for row in rows]


def mask_counts(db: Database, chosen: RolloutFilter) -> list[MaskCount]:
    """Masked rollouts by kind and stage of their masks."""
    sql, parameters = where(chosen)
    rows = db.rows(
        f"SELECT r.mask_kind, r.mask_stage, count(*) FROM rollouts AS r WHERE ({sql}) AND r.status = 'masked' "
        "GROUP BY r.mask_kind, r.mask_stage ORDER BY 3 DESC, 1, 2",
        parameters,
    )
    return [MaskCount(*row) for row in rows]


def retried_masks(db: Database, chosen: RolloutFilter) -> int:
    """Attempts that were masked and tried again."""
    sql, parameters = where(chosen)
    found = db.value(
        f"SELECT count(*) FROM attempts AS a JOIN rollouts AS r USING (rid) WHERE ({sql}) AND a.will_retry", parameters
    )
    assert isinstance(found, int)
    return found


def budget_points(db: Database, chosen: RolloutFilter) -> list[BudgetPoint]:
    """The budgets of all rollouts that have begun, the one that has spent most first."""
    sql, parameters = where(chosen)
    rows = db.rows(
        f"SELECT r.rollout_id, r.total_s, r.spent_s, r.parked_s FROM rollouts AS r WHERE ({sql}) AND r.attempt > 0 "
        "ORDER BY r.spent_s DESC, r.rid",
        parameters,
    )
    return [BudgetPoint(*row) for row in rows]


def stage_points(db: Database, chosen: RolloutFilter) -> dict[RolloutStage, list[float]]:
    """Seconds of each stage that is over, of all attempts, shortest first; time of being parked is left out."""
    sql, parameters = where(chosen)
    inner = "" if sql == "1" else f"AND g.rid IN (SELECT r.rid FROM rollouts AS r WHERE {sql})"
    rows = db.rows(
        f"SELECT g.stage, g.seconds FROM stages AS g WHERE g.end_t IS NOT NULL {inner} ORDER BY g.seconds", parameters
    )
    found: dict[RolloutStage, list[float]] = {stage: [] for stage in STAGES}
    for stage, seconds in rows:
        found[stage].append(seconds)
    return {stage: points for stage, points in found.items() if points}


def stage_spans(db: Database, chosen: RolloutFilter) -> list[StageSpan]:
    """When each attempt was in which stage, by the time at which it began.

    A stage whose start is not known is left out; one without an end has ended with its attempt, if that did.
    """
    sql, parameters = where(chosen)
    rows = db.rows(
        "SELECT g.rid, r.rollout_id, g.attempt, g.stage, g.start_t, coalesce(g.end_t, a.end_t) FROM stages AS g "
        "JOIN rollouts AS r ON r.rid = g.rid LEFT JOIN attempts AS a ON a.rid = g.rid AND a.attempt = g.attempt "
        f"WHERE ({sql}) AND g.start_t IS NOT NULL ORDER BY g.start_t",
        parameters,
    )
    return [StageSpan(*row) for row in rows]
