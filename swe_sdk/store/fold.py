"""From lines of a journal to rows of the index. Nothing here depends on the order in which lines come."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.store import events as ev
from swe_sdk.store import statements as st
from swe_sdk.store.derive import DERIVE

_PASSED = ("PASSED", "XFAIL")


class At(NamedTuple):
    """Where and when an event was written."""

    t: float
    tie: int
    """Orders events of the same time: made of the journal and the number in it."""
    jn: int
    at: int
    length: int


class Fold:
    """Collects rows of one run, to be written in the end, within the transaction of ``db``."""

    def __init__(self, db: sqlite3.Connection, rn: int) -> None:
        self._db = db
        self.rn = rn
        self._rids: dict[str, int] = {}
        self._rows: dict[str, list[Any]] = defaultdict(list)
        self._counts: dict[tuple[int, int], list[int]] = {}
        self._touched: dict[int, float] = {}
        self._outcomes: list[tuple[int, int, Outcome, At]] = []
        self._queued: list[tuple[dict[str, Any], dict[str, str]]] = []
        self._newest = 0.0
        self.owner: str | None = None
        """Who writes the journal, where a line said so."""
        self.is_closed = False

    def add(self, event: ev.Event, at: At) -> None:
        """Take note of one event."""
        self._newest = max(self._newest, at.t)
        _HANDLERS[type(event)](self, event, at)

    def write(self, seq: int) -> None:
        """Write all rows; ``seq`` marks what changed."""
        self._db.executemany(st.ATTEMPT_EXISTS, self._counts)
        for sql, rows in self._rows.items():
            self._db.executemany(sql, rows)
        counts = [(*numbers, *key) for key, numbers in self._counts.items() if any(numbers)]
        self._db.executemany(st.ATTEMPT_COUNTS, counts)
        for row, tags in self._queued:
            self._write_queued(row, tags)
        for rid, attempt, outcome, at in self._outcomes:
            self._write_outcome(rid, attempt, outcome, at)
        self._derive(seq)
        if self._newest:
            self._db.execute(st.RUN_TOUCHED, (self._newest, seq, self.rn))

    def put(self, sql: str, *values: Any) -> None:
        """A row for a statement."""
        self._rows[sql].append(values)

    def of_run(self, sql: str, event: ev.RunStarted | ev.RunEnded, at: At) -> None:
        """A row for a statement about the run, whose parameters are the fields of the event."""
        self._rows[sql].append({**_fields(event), **at._asdict(), "rn": self.rn})

    def queued(self, event: ev.RolloutQueued, at: At) -> None:
        """Whose rollout it is, and its tags."""
        self._queued.append(
            ({**_fields(event), "t": at.t, "tie": at.tie, "rid": self.rid(event.rollout_id, at)}, event.tags)
        )

    def rid(self, rollout_id: str, at: At) -> int:
        """Number of a rollout, which this changes."""
        rid = self._rids.get(rollout_id)
        if rid is None:
            rid = self._rids[rollout_id] = self._find(rollout_id)
        self._touched[rid] = max(self._touched.get(rid, at.t), at.t)
        return rid

    def attempt(self, event: Any, at: At) -> tuple[int, int]:
        """Numbers of a rollout and an attempt, which this changes."""
        key = (self.rid(event.rollout_id, at), event.attempt)
        self._counts.setdefault(key, [0] * 6)
        return key

    def count(self, key: tuple[int, int], first: int, tokens_in: int, tokens_out: int) -> None:
        """One step (``first`` = 0) or model call (3) of an attempt."""
        for place, number in enumerate((1, tokens_in, tokens_out), start=first):
            self._counts[key][place] += number

    def outcome(self, key: tuple[int, int], outcome: Outcome, at: At) -> None:
        """An outcome, with its mask and its tests."""
        self._outcomes.append((*key, outcome, at))
        if outcome.mask is not None:
            self.mask(key, outcome.mask, at)

    def mask(self, key: tuple[int, int], mask: Mask, at: At) -> None:
        """Why an attempt gives no measurement."""
        self.put(st.MASK, *key, mask.kind, mask.stage, mask.model_dump_json(), at.t, at.tie)

    def _find(self, rollout_id: str) -> int:
        found = self._db.execute(
            "SELECT rid FROM rollouts WHERE rn = ? AND rollout_id = ?", (self.rn, rollout_id)
        ).fetchone()
        if found is None:
            instance = rollout_id.rpartition(".")[0] or rollout_id
            found = self._db.execute(st.NEW_ROLLOUT, (self.rn, rollout_id, instance)).fetchone()
            self._db.execute(st.INSTANCE, (instance,))
        return int(found[0])

    def _write_queued(self, row: dict[str, Any], tags: dict[str, str]) -> None:
        if not self._db.execute(st.QUEUED, row).rowcount:
            return
        self._db.execute(st.INSTANCE, (row["instance_id"],))
        self._db.execute("DELETE FROM tags WHERE rid = ?", (row["rid"],))  # also where the newest word has none
        self._db.executemany("INSERT INTO tags VALUES (?, ?, ?)", [(row["rid"], *tag) for tag in tags.items()])

    def _write_outcome(self, rid: int, attempt: int, outcome: Outcome, at: At) -> None:
        row = (rid, attempt, *_outcome_columns(outcome), at.jn, at.at, at.length, at.t, at.tie)
        if self._db.execute(st.OUTCOME, row).rowcount:
            self._db.execute("DELETE FROM verdicts WHERE rid = ? AND attempt = ?", (rid, attempt))
            rows = [(rid, attempt, *verdict) for verdict in _verdicts(outcome)]
            self._db.executemany("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?)", rows)

    def _derive(self, seq: int) -> None:
        self._db.execute("CREATE TEMP TABLE IF NOT EXISTS touched (rid INTEGER PRIMARY KEY, touched_at REAL)")
        self._db.execute("DELETE FROM touched")
        self._db.executemany(st.TOUCHED, self._touched.items())
        self._db.execute(DERIVE, {"seq": seq})


def _fields(event: ev.RunStarted | ev.RunEnded | ev.RolloutQueued) -> dict[str, Any]:
    fields = event.model_dump(exclude={"config"})
    return {**fields, "tags": json.dumps(fields.get("tags", {}))}


def _outcome_columns(outcome: Outcome) -> tuple[Any, ...]:
    counts: list[int] = []
    for tests in (outcome.tests.fail_to_pass, outcome.tests.pass_to_pass):
        counts += (sum(status in _PASSED for status in tests.values()), len(tests))
    flags = json.dumps(outcome.flags)
    sha256 = outcome.patch.sha256 if outcome.patch.exists else None
    return (outcome.status, outcome.reward, outcome.reason, flags, outcome.provider, *counts, sha256)


def _verdicts(outcome: Outcome) -> Iterable[tuple[str, str, str]]:
    for test, status in outcome.tests.fail_to_pass.items():
        yield "fail_to_pass", test, status
    for test, status in outcome.tests.pass_to_pass.items():
        if status not in _PASSED:
            yield "pass_to_pass", test, status


# -- one function for each kind of event -----------------------------------------------------------------------------


def _run_started(fold: Fold, event: ev.RunStarted, at: At) -> None:
    fold.of_run(st.RUN_STARTED, event, at)
    fold.of_run(st.RUN_COUNTED, event, at)


def _attempt_started(fold: Fold, event: ev.AttemptStarted, at: At) -> None:
    key = fold.attempt(event, at)
    values = (event.provider, event.restored_from, event.boundary, event.restart_reason)
    fold.put(st.ATTEMPT_STARTED, *key, *values, at.t, at.tie)


def _attempt_ended(fold: Fold, event: ev.AttemptEnded, at: At) -> None:
    key = fold.attempt(event, at)
    values = (event.reason, event.message, event.exit_code, event.will_retry)
    fold.put(st.ATTEMPT_ENDED, *key, *values, at.t, at.tie)


def _rollout_ended(fold: Fold, event: ev.RolloutEnded, at: At) -> None:
    rid, attempt = fold.attempt(event, at)
    fold.put(st.ROLLOUT_ENDED, rid, attempt, event.status, event.reward, event.reason, at.t, at.tie)


def _parked(fold: Fold, event: ev.RolloutParked | ev.RolloutUnparked, at: At) -> None:
    key = fold.attempt(event, at)
    fold.put(st.ATTEMPT_PARKED, *key, isinstance(event, ev.RolloutParked), at.t, at.tie)


def _stage_started(fold: Fold, event: ev.StageStarted, at: At) -> None:
    fold.put(st.STAGE_STARTED, *fold.attempt(event, at), event.stage, at.t, at.tie)


def _stage_ended(fold: Fold, event: ev.StageEnded, at: At) -> None:
    key = fold.attempt(event, at)
    fold.put(st.STAGE_ENDED, *key, event.stage, event.seconds, event.ok, event.message, at.t, at.tie)


def _step(fold: Fold, event: ev.StepTaken, at: At) -> None:
    key = fold.attempt(event, at)
    fold.count(key, 0, event.tokens_in, event.tokens_out)
    place = (at.jn, at.at, at.length, at.t)
    fold.put(st.STEP, *key, event.n, *place, event.step_kind, event.seconds, event.tokens_in, event.tokens_out)


def _model_call(fold: Fold, event: ev.ModelCalled, at: At) -> None:
    key = fold.attempt(event, at)
    fold.count(key, 3, event.tokens_in, event.tokens_out)
    place = (at.t, at.jn, at.at, at.length)
    values = (event.model, event.status, event.seconds, event.tokens_in, event.tokens_out)
    fold.put(st.MODEL_CALL, *key, *place, *values)


def _budget(fold: Fold, event: ev.BudgetCharged, at: At) -> None:
    key = fold.attempt(event, at)
    budget = event.budget
    fold.put(st.BUDGET, *key, budget.total_s, budget.spent_s, budget.parked_s, event.queued_s, at.t, at.tie)


def _artifact(fold: Fold, event: ev.ArtifactWritten, at: At) -> None:
    rid = 0 if event.rollout_id is None else fold.rid(event.rollout_id, at)
    key = (fold.rn, rid, event.attempt or 0, event.name)
    values = (event.role, event.path, event.size_bytes, event.stored_bytes, event.encoding, event.is_open)
    fold.put(st.ARTIFACT, *key, *values, at.t, at.tie)


def _checkpoint_phase(fold: Fold, event: ev.CheckpointPhase, at: At) -> None:
    values = (event.operation, event.participant, event.seconds, event.ok, event.message)
    fold.put(st.CHECKPOINT_PHASE, fold.rn, event.checkpoint_id, at.t, at.tie, *values)


def _checkpoint_saved(fold: Fold, event: ev.CheckpointSaved, at: At) -> None:
    values = (event.path, event.records, event.restarts, event.snapshots, event.size_bytes, event.seconds)
    fold.put(st.CHECKPOINT_SAVED, fold.rn, event.checkpoint_id, *values, at.t, at.tie)
    fold.put(st.CHECKPOINT_STATE, fold.rn, event.checkpoint_id, "kept", "", at.t, at.tie)


def _checkpoint_state(fold: Fold, event: ev.CheckpointKept | ev.CheckpointReleased, at: At) -> None:
    state = "kept" if isinstance(event, ev.CheckpointKept) else "released"
    fold.put(st.CHECKPOINT_STATE, fold.rn, event.checkpoint_id, state, event.reason, at.t, at.tie)


def _checkpoint_rollout(fold: Fold, event: ev.CheckpointRollout, at: At) -> None:
    values = (event.attempt, event.held, event.boundary, event.tier, event.reason, event.spent_s, event.steps)
    fold.put(st.CHECKPOINT_ROLLOUT, fold.rn, event.checkpoint_id, event.rollout_id, *values, at.t, at.tie)


def _snapshot_taken(fold: Fold, event: ev.SnapshotTaken, at: At) -> None:
    owner = (event.checkpoint_id, event.rollout_id, event.attempt)
    values = (*owner, event.provider, event.node, event.size_bytes, event.seconds)
    fold.put(st.SNAPSHOT_TAKEN, fold.rn, event.snapshot_id, *values, at.t, at.tie)
    fold.put(st.SNAPSHOT_REFERENCED, fold.rn, event.snapshot_id, event.checkpoint_id)


def _writer_opened(fold: Fold, event: ev.WriterOpened, _at: At) -> None:
    fold.owner = event.owner.model_dump_json()


def _writer_closed(fold: Fold, _event: ev.WriterClosed, _at: At) -> None:
    fold.is_closed = True


_HANDLERS: Mapping[type[ev.Event], Callable[[Fold, Any, At], None]] = {
    ev.WriterOpened: _writer_opened,
    ev.WriterClosed: _writer_closed,
    ev.RunStarted: _run_started,
    ev.RunEnded: lambda fold, event, at: fold.of_run(st.RUN_ENDED, event, at),
    ev.RolloutQueued: Fold.queued,
    ev.AttemptStarted: _attempt_started,
    ev.AttemptEnded: _attempt_ended,
    ev.RolloutEnded: _rollout_ended,
    ev.RolloutParked: _parked,
    ev.RolloutUnparked: _parked,
    ev.StageStarted: _stage_started,
    ev.StageEnded: _stage_ended,
    ev.StepTaken: _step,
    ev.ModelCalled: _model_call,
    ev.BudgetCharged: _budget,
    ev.AttemptMasked: lambda fold, event, at: fold.mask(fold.attempt(event, at), event.mask, at),
    ev.OutcomeReached: lambda fold, event, at: fold.outcome(fold.attempt(event, at), event.outcome, at),
    ev.ArtifactWritten: _artifact,
    ev.CheckpointPhase: _checkpoint_phase,
    ev.CheckpointSaved: _checkpoint_saved,
    ev.CheckpointRollout: _checkpoint_rollout,
    ev.CheckpointKept: _checkpoint_state,
    ev.CheckpointReleased: _checkpoint_state,
    ev.SnapshotTaken: _snapshot_taken,
    ev.SnapshotReferenced: lambda fold, event, _at: fold.put(
        st.SNAPSHOT_REFERENCED, fold.rn, event.snapshot_id, event.checkpoint_id
    ),
    ev.SnapshotCopied: lambda fold, event, at: fold.put(
        st.SNAPSHOT_COPIED, fold.rn, event.snapshot_id, event.path, at.t, at.tie
    ),
    ev.SnapshotReleased: lambda fold, event, at: fold.put(
        st.SNAPSHOT_RELEASED, fold.rn, event.snapshot_id, event.reason, at.t, at.tie
    ),
}
