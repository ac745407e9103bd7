"""The few columns that the metrics of a run need, of all its rollouts: plain tuples, since there may be many."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.store.database import Database
from swe_sdk.store.filters import RolloutFilter, where
from swe_sdk.store.rows import RolloutStatus


class RolloutOutline(NamedTuple):
    """A rollout, by the columns of :class:`swe_sdk.store.rows.RolloutRow` of those names."""

    rollout_id: str
    instance_id: str
    status: RolloutStatus
    mask_kind: str | None
    mask_stage: str | None
    total_s: float | None
    spent_s: float
    parked_s: float
    attempt: int


def outlines(db: Database, chosen: RolloutFilter) -> list[RolloutOutline]:
    """All rollouts that a filter holds for, in the order in which they were planned."""
    sql, parameters = where(chosen)
    columns = ", ".join(f"r.{name}" for name in RolloutOutline._fields)
    rows = db.rows(f"SELECT {columns} FROM rollouts AS r WHERE {sql} ORDER BY r.rid", parameters)
    return [RolloutOutline(*row) for row in rows]
