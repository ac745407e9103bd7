"""One rollout in detail: attempts, stages, tests, budgets, steps, model calls, files, outcome."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Outcome
from swe_sdk.store.database import Database
from swe_sdk.store.events import Event, ModelCalled, OutcomeReached, RunStarted, StepTaken
from swe_sdk.store.layout import events_folder
from swe_sdk.store.lines import BadLine, decode_line
from swe_sdk.store.reading import read_line
from swe_sdk.store.rows import (
    ArtifactRow,
    AttemptRow,
    BudgetRow,
    ModelCallRow,
    Page,
    StageRow,
    StepRow,
    VerdictRow,
)

RowT = TypeVar("RowT", bound=BaseModel)
EventT = TypeVar("EventT", bound=Event)


def attempts(db: Database, rid: int) -> list[AttemptRow]:
    """All of them, the first one first."""
    sql = """
    SELECT a.attempt, a.provider, a.restored_from, a.boundary, a.restart_reason, a.start_t AS started_at,
        a.end_t AS ended_at, a.end_reason, a.message, a.exit_code, a.will_retry, a.is_parked, a.steps,
        iif(a.calls, a.call_tokens_in, a.step_tokens_in) AS tokens_in,
        iif(a.calls, a.call_tokens_out, a.step_tokens_out) AS tokens_out, a.calls AS model_calls,
        o.status AS outcome, m.kind AS mask_kind
    FROM attempts AS a LEFT JOIN outcomes AS o USING (rid, attempt) LEFT JOIN masks AS m USING (rid, attempt)
    WHERE a.rid = ? ORDER BY a.attempt
    """
    return _all(AttemptRow, db.rows(sql, (rid,)))


def stages(db: Database, rid: int, attempt: int | None) -> list[StageRow]:
    """In the order in which they began."""
    sql = """
    SELECT attempt, stage, start_t AS started_at, end_t AS ended_at, seconds, ok, message FROM stages
    WHERE rid = ?1 AND (?2 IS NULL OR attempt = ?2) ORDER BY attempt, coalesce(start_t, end_t), stage
    """
    return _all(StageRow, db.rows(sql, (rid, attempt)))


def verdicts(db: Database, rid: int, attempt: int | None) -> list[VerdictRow]:
    """Tests to be looked at, by list and name."""
    sql = "SELECT attempt, tests, test, status FROM verdicts WHERE rid = ?1 AND (?2 IS NULL OR attempt = ?2)"
    return _all(VerdictRow, db.rows(sql + " ORDER BY attempt, tests, test", (rid, attempt)))


def budgets(db: Database, rid: int) -> list[BudgetRow]:
    """The last word of each attempt."""
    sql = "SELECT * FROM budgets WHERE rid = ? ORDER BY attempt"
    return [_budget(row) for row in db.rows(sql, (rid,))]


def _budget(row: sqlite3.Row) -> BudgetRow:
    budget = Budget(total_s=row["total_s"], spent_s=row["spent_s"], parked_s=row["parked_s"])
    return BudgetRow(attempt=row["attempt"], at=row["bud_t"], budget=budget, queued_s=row["queued_s"])


def artifacts(db: Database, rn: int, rid: int | None, attempt: int | None) -> list[ArtifactRow]:
    """Files of a rollout, or of the run itself (``rid`` 0), or of both and all (None)."""
    sql = """
    SELECT u.run, r.rollout_id, nullif(a.attempt, 0) AS attempt, a.name, a.role, a.path, a.size_bytes, a.stored_bytes,
        a.encoding, a.is_open
    FROM artifacts AS a JOIN runs AS u USING (rn) LEFT JOIN rollouts AS r USING (rid)
    WHERE a.rn = ?1 AND (?2 IS NULL OR a.rid = ?2) AND (?3 IS NULL OR a.attempt = ?3)
    ORDER BY r.rollout_id, a.attempt, a.name
    """
    return _all(ArtifactRow, db.rows(sql, (rn, rid, attempt)))


class Journals:
    """Events at the places that the index names."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._paths: dict[tuple[int, int], Path] = {}

    def event(self, kind: type[EventT], jn: int, at: int, length: int) -> EventT | None:
        """The event of a line; None where the journal is gone, or something else is there."""
        data = read_line(self._path(jn), at, length)
        try:
            event = None if data is None else decode_line(data).event
        except BadLine:
            return None
        return event if isinstance(event, kind) else None

    def _path(self, jn: int) -> Path:
        key = (self._db.epoch, jn)
        if key not in self._paths:
            row = self._db.row("SELECT u.path, j.name FROM journals AS j JOIN runs AS u USING (rn) WHERE jn = ?", (jn,))
            self._paths[key] = Path() if row is None else events_folder(Path(row["path"])) / row["name"]
        return self._paths[key]


def steps(db: Database, journals: Journals, rid: int, attempt: int | None, offset: int, limit: int) -> Page[StepRow]:
    """Steps in their order, with what the journal says of each."""
    within = "FROM steps WHERE rid = ?1 AND (?2 IS NULL OR attempt = ?2)"
    rows = db.rows(f"SELECT * {within} ORDER BY attempt, n, t LIMIT ?3 OFFSET ?4", (rid, attempt, limit, offset))
    total = db.value(f"SELECT count(*) {within}", (rid, attempt))
    return _page([_step(row, journals) for row in rows], offset, total)


def _step(row: sqlite3.Row, journals: Journals) -> StepRow:
    step = journals.event(StepTaken, row["jn"], row["at"], row["length"])
    names = ("attempt", "n", "step_kind", "seconds", "tokens_in", "tokens_out")
    return StepRow.model_validate({**{name: row[name] for name in names}, "at": row["t"], "step": step})


def model_calls(
    db: Database, journals: Journals, rid: int, attempt: int | None, offset: int, limit: int
) -> Page[ModelCallRow]:
    """Calls in the order in which they ended, with what the journal says of each."""
    within = "FROM model_calls WHERE rid = ?1 AND (?2 IS NULL OR attempt = ?2)"
    rows = db.rows(f"SELECT * {within} ORDER BY attempt, t LIMIT ?3 OFFSET ?4", (rid, attempt, limit, offset))
    total = db.value(f"SELECT count(*) {within}", (rid, attempt))
    return _page([_model_call(row, journals) for row in rows], offset, total)


def _model_call(row: sqlite3.Row, journals: Journals) -> ModelCallRow:
    call = journals.event(ModelCalled, row["jn"], row["at"], row["length"])
    names = ("attempt", "model", "status", "seconds", "tokens_in", "tokens_out")
    return ModelCallRow.model_validate({**{name: row[name] for name in names}, "at": row["t"], "call": call})


def outcome(db: Database, journals: Journals, rid: int, attempt: int | None) -> Outcome | None:
    """The whole outcome of an attempt (default: of the newest that has one)."""
    sql = "SELECT jn, at, length FROM outcomes WHERE rid = ?1 AND (?2 IS NULL OR attempt = ?2) ORDER BY attempt DESC"
    row = db.row(sql, (rid, attempt))
    event = None if row is None else journals.event(OutcomeReached, *row)
    return None if event is None else event.outcome


def run_config(db: Database, journals: Journals, rn: int) -> dict[str, object]:
    """The resolved configuration that the run was last started with."""
    row = db.row("SELECT config_jn, config_at, config_length FROM runs WHERE rn = ? AND config_jn IS NOT NULL", (rn,))
    event = None if row is None else journals.event(RunStarted, *row)
    return {} if event is None else event.config


def _all(model: type[RowT], rows: list[sqlite3.Row]) -> list[RowT]:
    return [model.model_validate(dict(row)) for row in rows]


def _page(rows: list[RowT], offset: int, total: object) -> Page[RowT]:
    assert isinstance(total, int)
    return Page(rows=tuple(rows), offset=offset, total=total)
