"""Pages of rollouts: filtered, sorted by any column, each from where the last one ended.

Rows that a filter leaves few of are found first and sorted then. Else the index of the sort column is gone through
until the page is full. Both work on numbers of rows; only those that are shown are read.
"""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
from typing import Any, NamedTuple

from swe_sdk.errors import InputError
from swe_sdk.store.database import Database
from swe_sdk.store.filters import SORT_COLUMNS, RolloutFilter, Where, require_column, where
from swe_sdk.store.rows import Page, RolloutRow

_FEW = 5000
_OWN = tuple(name for name in RolloutRow.model_fields if name != "run")
SELECT_ROLLOUTS = (
    f"SELECT u.run, {', '.join(f'r.{name}' for name in _OWN)}, r.rid "
    "FROM rollouts AS r CROSS JOIN runs AS u ON u.rn = r.rn"  # CROSS: the runs are looked up, never gone through
)


class _After(NamedTuple):
    """The last row of the page before."""

    value: Any
    rid: int


class _Plan(NamedTuple):
    """How rows are found: from which table or index, and in which order."""

    condition: Where
    source: str
    column: str
    order: str

    def rids(self, condition: Where, limit: int, offset: int = 0) -> tuple[str, tuple[object, ...]]:
        """The query for numbers of rows."""
        ordered = f"ORDER BY {self.column} {self.order}, r.rid {self.order} LIMIT ? OFFSET ?"
        sql = f"SELECT r.rid FROM {self.source} WHERE {condition.sql} {ordered}"
        return sql, (*condition.parameters, limit, offset)


def page_of_rollouts(
    db: Database,
    chosen: RolloutFilter,
    *,
    sort: str,
    descending: bool,
    offset: int,
    limit: int,
    cursor: str | None,
    total: bool,
) -> Page[RolloutRow]:
    """Rows ``offset`` to ``offset + limit``, or ``limit`` rows after those of a cursor. NULL is less than anything."""
    require_column(sort, SORT_COLUMNS)
    after = None if cursor is None else _decode(cursor, sort, descending)
    with db.snapshot():
        count = count_rollouts(db, where(chosen)) if total else None
        few = _few(db, chosen) if count is None or count <= _FEW else None
        plan = _plan(db, chosen, few, sort, "DESC" if descending else "ASC")
        if after is None:
            rids = _column(db, *plan.rids(plan.condition, limit + 1, offset))
        else:
            rids = _rids_after(db, plan, limit + 1, after)
        rows = _rows(db, rids)
    more = _encode(rows[limit - 1], sort, descending) if len(rows) > limit else None
    return Page(rows=tuple(map(rollout_row, rows[:limit])), offset=offset, total=count, cursor=more)


def neighbours(
    db: Database, chosen: RolloutFilter, rid: int, *, sort: str, descending: bool
) -> tuple[RolloutRow | None, RolloutRow | None]:
    """The rollouts right before and after one in the pages of a filter and a sort, whether it is on them or not."""
    require_column(sort, SORT_COLUMNS)
    with db.snapshot():
        row = db.row(f"SELECT {sort} FROM rollouts WHERE rid = ?", (rid,))
        assert row is not None
        few, after = _few(db, chosen), _After(row[0], rid)
        orders = ("ASC", "DESC") if descending else ("DESC", "ASC")
        found = [_rids_after(db, _plan(db, chosen, few, sort, order), 1, after) for order in orders]
        before, behind = (rollout_row(_rows(db, rids)[0]) if rids else None for rids in found)
    return before, behind


def count_rollouts(db: Database, condition: Where) -> int:
    """How many rollouts a condition holds for."""
    found = db.value(f"SELECT count(*) FROM rollouts AS r WHERE {condition.sql}", condition.parameters)
    assert isinstance(found, int)
    return found


def rollout_row(row: sqlite3.Row) -> RolloutRow:
    """A row of :data:`SELECT_ROLLOUTS`."""
    fields = dict(row)
    del fields["rid"]
    fields["tags"], fields["flags"] = json.loads(fields["tags"]), tuple(json.loads(fields["flags"]))
    return RolloutRow.model_validate(fields)


def _few(db: Database, chosen: RolloutFilter) -> list[int] | None:
    """The rows that a filter holds for; None where they are not few."""
    if chosen == RolloutFilter():
        return None
    condition = where(chosen)
    sql = f"SELECT r.rid FROM rollouts AS r WHERE {condition.sql} LIMIT ?"
    found = _column(db, sql, (*condition.parameters, _FEW + 1))
    return found if len(found) <= _FEW else None


def _plan(db: Database, chosen: RolloutFilter, few: list[int] | None, sort: str, order: str) -> _Plan:
    if few is not None:
        among = Where("r.rid IN (SELECT value FROM json_each(?))", (json.dumps(few),))
        return _Plan(among, "rollouts AS r", f"+r.{sort}", order)
    source = f"rollouts AS r INDEXED BY rollouts_by_{sort}" if db.has_indexes else "rollouts AS r"
    return _Plan(where(chosen, one_by_one=True), source, f"r.{sort}", order)


def _rids_after(db: Database, plan: _Plan, limit: int, after: _After) -> list[int]:
    """The rest of the rows with NULL or of those without, whichever ``after`` is among, then the others."""
    is_up = plan.order == "ASC"
    sign, is_null = (">" if is_up else "<"), f"{plan.column} IS NULL"
    if after.value is None:
        rest = plan.condition.also(f"{is_null} AND r.rid {sign} ?", after.rid)
        others = plan.condition.also(f"NOT {is_null}") if is_up else None
    else:
        rest = plan.condition.also(f"({plan.column}, r.rid) {sign} (?, ?)", after.value, after.rid)
        others = None if is_up else plan.condition.also(is_null)
    rids = _column(db, *plan.rids(rest, limit))
    if others is not None and len(rids) < limit:
        rids += _column(db, *plan.rids(others, limit - len(rids)))
    return rids


def _rows(db: Database, rids: list[int]) -> list[sqlite3.Row]:
    found = db.rows(f"{SELECT_ROLLOUTS} WHERE r.rid IN (SELECT value FROM json_each(?))", (json.dumps(rids),))
    by_rid = {row["rid"]: row for row in found}
    return [by_rid[rid] for rid in rids]


def _column(db: Database, sql: str, parameters: tuple[object, ...]) -> list[int]:
    return [row[0] for row in db.rows(sql, parameters)]


def _encode(row: sqlite3.Row, sort: str, descending: bool) -> str:
    plain = json.dumps([sort, descending, row[sort], row["rid"]])
    return base64.urlsafe_b64encode(plain.encode()).decode()


def _decode(cursor: str, sort: str, descending: bool) -> _After:
    try:
        of_sort, of_descending, value, rid = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError, binascii.Error) as error:
        raise InputError("this is no cursor of a page of rollouts") from error
    if (of_sort, of_descending) != (sort, descending):
        raise InputError("a cursor belongs to a page that was sorted otherwise", remedy="start without a cursor")
    return _After(value, rid)
