"""Many rollouts at once: groups, sums, masks."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from swe_sdk.model.outcome import Mask
from swe_sdk.store.database import Database
from swe_sdk.store.filters import GROUP_COLUMNS, RolloutFilter, Where, require_column, where
from swe_sdk.store.rows import BudgetTotals, GroupRow, MaskRow, Page, StageSeconds
from swe_sdk.store.sum_rows import Facet

GRADED = ("resolved", "unresolved")
"""The statuses whose reward is a measurement."""
_GRADED_MEAN = f"avg(CASE WHEN r.status IN {GRADED} THEN r.reward END)"
_COUNTS = ", ".join(f"sum(r.status = '{status}') AS {status}" for status in ("resolved", "unresolved", "masked"))


def groups(db: Database, by: str, chosen: RolloutFilter, limit: int) -> list[GroupRow]:
    """Rollouts by the value of a column, the largest group first."""
    column = f"r.{require_column(by, GROUP_COLUMNS)}" if by != "run" else "u.run"
    join = "JOIN runs AS u ON u.rn = r.rn" if by == "run" else ""
    condition = where(chosen)
    rows = db.rows(
        f"SELECT {column} AS value, count(*) AS rollouts, {_COUNTS}, {_GRADED_MEAN} AS reward_mean "
        f"FROM rollouts AS r {join} WHERE {condition.sql} "
        f"GROUP BY {column} ORDER BY rollouts DESC, value LIMIT ?",
        (*condition.parameters, limit),
    )
    return [GroupRow.model_validate({**row, "value": _text(row["value"])}) for row in map(dict, rows)]


def facets(db: Database, chosen: RolloutFilter) -> list[Facet]:
    """Rollouts by all that they may be filtered by. Counts of any of it are sums of them."""
    condition = where(chosen)
    columns = "r.family, r.provider, r.agent, r.model, r.repo, r.mask_stage, r.status, r.mask_kind, r.rn"
    rows = db.rows(  # grouped as an index has them: nothing is sorted
        "SELECT r.rn, r.family, r.provider, r.agent, r.model, r.status, r.mask_kind, count(*) "
        f"FROM rollouts AS r WHERE {condition.sql} GROUP BY {columns}",
        condition.parameters,
    )
    runs = {row["rn"]: row["run"] for row in db.rows("SELECT rn, run FROM runs")}
    return [Facet(runs[rn], *rest) for rn, *rest in rows if rn in runs]


def budget_totals(db: Database, chosen: RolloutFilter) -> BudgetTotals:
    """Sums over rollouts; one without a limit adds nothing to ``total_s``."""
    condition = where(chosen)
    row = db.row(
        "SELECT count(*) AS rollouts, coalesce(sum(r.total_s), 0) AS total_s, coalesce(sum(r.spent_s), 0) AS spent_s, "
        "coalesce(sum(r.parked_s), 0) AS parked_s, coalesce(sum(r.queued_s), 0) AS queued_s, "
        f"count(CASE WHEN r.remaining_s = 0 THEN 1 END) AS exhausted FROM rollouts AS r WHERE {condition.sql}",
        condition.parameters,
    )
    assert row is not None
    return BudgetTotals.model_validate(dict(row))


def stage_seconds(db: Database, chosen: RolloutFilter) -> list[StageSeconds]:
    """Seconds of all attempts that were made, by stage, in the order of the stages."""
    condition = where(chosen)
    inner = "" if condition.sql == "1" else f"AND g.rid IN (SELECT r.rid FROM rollouts AS r WHERE {condition.sql})"
    rows = db.rows(
        "SELECT g.stage, count(*) AS count, sum(g.seconds) AS total_s, avg(g.seconds) AS mean_s, "
        "max(g.seconds) AS max_s, sum(g.ok = 0) AS failed FROM stages AS g "
        f"WHERE g.end_t IS NOT NULL {inner} GROUP BY g.stage",
        condition.parameters,
    )
    order = ("seed", "invoke_agent", "close_agent", "verify", "return")
    found = [StageSeconds.model_validate(dict(row)) for row in rows]
    return sorted(found, key=lambda row: order.index(row.stage))


OneOf = str | Sequence[str] | None
"""A value, or any of some; None or nothing = whatever it is."""

MASKED = """
FROM masks AS m CROSS JOIN rollouts AS r ON r.rid = m.rid JOIN runs AS u ON u.rn = r.rn
LEFT JOIN outcomes AS o ON o.rid = m.rid AND o.attempt = m.attempt
WHERE (o.rid IS NULL OR o.status = 'masked' OR o.out_t < m.mask_t) AND
"""
"""Attempts whose mask stands; a condition follows."""
IS_FINAL_MASK = "(r.status = 'masked' AND r.attempt = m.attempt)"
"""Whether the rollout ended with it."""
_IS_RETRYABLE = "json_extract(m.mask, '$.retryable')"


def masks(
    db: Database,
    chosen: RolloutFilter,
    *,
    kind: OneOf,
    stage: OneOf,
    final: bool | None,
    retryable: bool | None,
    offset: int,
    limit: int,
    total: bool,
) -> Page[MaskRow]:
    """Masked attempts, the newest first, of rollouts that a filter holds for."""
    condition = one_of("m.stage", stage, one_of("m.kind", kind, where(chosen)))
    for sql, value in ((IS_FINAL_MASK, final), (_IS_RETRYABLE, retryable)):
        condition = condition if value is None else condition.also(f"{sql} = ?", value)
    sql, parameters = condition
    with db.snapshot():
        count = db.value(f"SELECT count(*) {MASKED} {sql}", parameters) if total else None
        rows = db.rows(
            "SELECT u.run, r.rollout_id, r.instance_id, m.attempt, r.provider, r.family, m.mask_t AS at, m.mask, "
            f"{IS_FINAL_MASK} AS is_final {MASKED} {sql} "
            "ORDER BY m.mask_t DESC, m.rid LIMIT ? OFFSET ?",
            (*parameters, limit, offset),
        )
    assert count is None or isinstance(count, int)
    return Page(rows=tuple(map(_mask_row, rows)), offset=offset, total=count)


def one_of(column: str, wanted: OneOf, condition: Where) -> Where:
    """A condition, and that a column is one of some values; nothing wanted = any."""
    if not wanted:
        return condition
    values = [wanted] if isinstance(wanted, str) else list(wanted)
    return condition.also(f"{column} IN (SELECT value FROM json_each(?))", json.dumps(values))


def _mask_row(row: sqlite3.Row) -> MaskRow:
    return MaskRow.model_validate({**dict(row), "mask": Mask.model_validate_json(row["mask"])})


def _text(value: object) -> str | None:
    return None if value is None else str(value)
