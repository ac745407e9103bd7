"""Budgets of many rollouts: how much of them is spent, and which are about to run out."""

from __future__ import annotations

from collections import Counter

from swe_sdk.store.database import Database
from swe_sdk.store.filters import RolloutFilter, where
from swe_sdk.store.rows import RolloutStatus
from swe_sdk.store.sum_rows import BudgetBin, RunBudget, UnderWay


def budget_bins(db: Database, chosen: RolloutFilter, bins: int) -> list[BudgetBin]:
    """Rollouts by the share of their budget that is spent; those without a limit are left out.

    The last of the ``bins`` is for those that have spent all of it.
    """
    condition = where(chosen).also("r.total_s > 0")
    rows = db.rows(  # grouped as an index has them, and counted here: to sort rows by their bin takes ten times as long
        "SELECT r.status, group_concat(CASE WHEN r.spent_s >= r.total_s THEN ?1 - 1 "
        "ELSE min(CAST(r.spent_s * (?1 - 1) / r.total_s AS INTEGER), ?1 - 2) END) AS bins "
        f"FROM rollouts AS r WHERE {condition.sql} GROUP BY r.rn, r.status",
        (bins, *condition.parameters),
    )
    counts: Counter[tuple[str, RolloutStatus]] = Counter()
    for status, numbers in rows:
        counts.update((each, status) for each in numbers.split(","))
    found = [BudgetBin(bin=int(bin), status=status, rollouts=number) for (bin, status), number in counts.items()]
    return sorted(found, key=lambda each: (each.bin, each.status))


def run_budgets(db: Database, chosen: RolloutFilter) -> list[RunBudget]:
    """Sums for each run, the newest run first."""
    condition = where(chosen)
    rows = db.rows(
        "SELECT u.run, s.* FROM (SELECT r.rn, count(*) AS rollouts, count(r.total_s) AS limited, "
        "coalesce(sum(r.total_s), 0) AS total_s, sum(r.spent_s) AS spent_s, sum(r.parked_s) AS parked_s, "
        "sum(r.queued_s) AS queued_s, count(CASE WHEN r.remaining_s = 0 THEN 1 END) AS exhausted "
        f"FROM rollouts AS r WHERE {condition.sql} GROUP BY r.rn) AS s JOIN runs AS u ON u.rn = s.rn "
        "ORDER BY u.started_at DESC, u.run",
        condition.parameters,
    )
    return [RunBudget.model_validate({name: row[name] for name in RunBudget.model_fields}) for row in rows]


_UNDER_WAY = """
SELECT r.rid, r.rn, r.rollout_id, r.instance_id, r.status, r.stage, r.attempt, r.provider, r.total_s, r.spent_s,
    r.parked_s, CASE
        WHEN r.status <> 'running' OR g.start_t IS NULL THEN 0.0
        ELSE max(?1 - max(g.start_t, coalesce(b.bud_t, g.start_t), coalesce(a.park_t, g.start_t)), 0.0)
    END AS working_s
FROM rollouts AS r
JOIN attempts AS a ON a.rid = r.rid AND a.attempt = r.attempt
LEFT JOIN stages AS g ON g.rid = r.rid AND g.attempt = r.attempt AND g.stage = r.stage
LEFT JOIN budgets AS b ON b.rid = r.rid AND b.attempt = r.attempt
WHERE r.status IN ('running', 'parked', 'retrying') AND r.total_s > 0 AND
"""


def under_way(db: Database, chosen: RolloutFilter, now: float, limit: int) -> list[UnderWay]:
    """Rollouts that are not over, those with the least left first, by the clock of ``now``.

    What is spent is written down when a stage ends. Since then a rollout that works is charged by the clock here; time
    for which it was parked and went on again meanwhile is counted from when it went on.
    """
    condition = where(chosen)
    rows = db.rows(
        "SELECT u.run, w.*, max(w.total_s - w.spent_s - w.working_s, 0.0) AS left_s "
        f"FROM ({_UNDER_WAY} {condition.sql}) AS w JOIN runs AS u ON u.rn = w.rn ORDER BY left_s, w.rid LIMIT ?",
        (now, *condition.parameters, limit),
    )
    return [UnderWay.model_validate({name: row[name] for name in UnderWay.model_fields}) for row in rows]
