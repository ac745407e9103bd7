"""Statements that fill the tables, and give the same rows in whatever order they are run."""

from __future__ import annotations

from typing import NamedTuple


class Newest(NamedTuple):
    """Sets a group of columns of one row, unless a newer event has set them: by time, then by ``tie``.

    Its parameters are the keys, the columns, the time and the tie. ``first`` is a column that counts before the time,
    because clocks of different machines differ.
    """

    table: str
    keys: str
    columns: str
    stamp: str
    first: str = ""

    @property
    def upsert(self) -> str:
        """For a row that may not be there yet."""
        names = f"{self.keys}, {self.columns}, {self.stamp}_t, {self.stamp}_tie"
        marks = ", ".join("?" * len(names.split(",")))
        sets = ", ".join(f"{c} = excluded.{c}" for c in (*_split(self.columns), *self._stamps))
        order = [name for name in (self.first, *self._stamps) if name]
        theirs, ours = (", ".join(f"{row}.{name}" for name in order) for row in ("excluded", self.table))
        return (
            f"INSERT INTO {self.table} ({names}) VALUES ({marks}) ON CONFLICT ({self.keys}) DO UPDATE SET {sets} "
            f"WHERE {self.table}.{self.stamp}_t IS NULL OR ({theirs}) > ({ours})"
        )

    @property
    def _stamps(self) -> tuple[str, str]:
        return f"{self.stamp}_t", f"{self.stamp}_tie"


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",")]


ATTEMPT_STARTED = Newest(
    "attempts", "rid, attempt", "provider, restored_from, boundary, restart_reason", "start"
).upsert
ATTEMPT_ENDED = Newest("attempts", "rid, attempt", "end_reason, message, exit_code, will_retry", "end").upsert
ATTEMPT_PARKED = Newest("attempts", "rid, attempt", "is_parked", "park").upsert
STAGE_STARTED = "INSERT INTO stages (rid, attempt, stage, start_t, start_tie) VALUES (?, ?, ?, ?, ?) " + (
    "ON CONFLICT (rid, attempt, stage) DO UPDATE SET start_t = excluded.start_t, start_tie = excluded.start_tie "
    "WHERE stages.start_t IS NULL OR (excluded.start_t, excluded.start_tie) > (stages.start_t, stages.start_tie)"
)
STAGE_ENDED = Newest("stages", "rid, attempt, stage", "seconds, ok, message", "end").upsert
ROLLOUT_ENDED = Newest("endings", "rid", "attempt, status, reward, reason", "end", first="attempt").upsert
BUDGET = Newest("budgets", "rid, attempt", "total_s, spent_s, parked_s, queued_s", "bud").upsert
MASK = Newest("masks", "rid, attempt", "kind, stage, mask", "mask").upsert
OUTCOME = Newest(
    "outcomes",
    "rid, attempt",
    "status, reward, reason, flags, provider, fail_to_pass_passed, fail_to_pass_total, pass_to_pass_passed, "
    "pass_to_pass_total, patch_sha256, jn, at, length",
    "out",
).upsert
ARTIFACT = Newest(
    "artifacts", "rn, rid, attempt, name", "role, path, size_bytes, stored_bytes, encoding, is_open", "art"
).upsert
CHECKPOINT_SAVED = Newest(
    "checkpoints", "rn, checkpoint_id", "path, records, restarts, snapshots, size_bytes, seconds", "save"
).upsert
CHECKPOINT_STATE = Newest("checkpoints", "rn, checkpoint_id", "state, state_reason", "state").upsert
CHECKPOINT_ROLLOUT = Newest(
    "checkpoint_rollouts",
    "rn, checkpoint_id, rollout_id",
    "attempt, held, boundary, tier, reason, spent_s, steps",
    "held",
).upsert
SNAPSHOT_TAKEN = Newest(
    "snapshots", "rn, snapshot_id", "checkpoint_id, rollout_id, attempt, provider, node, size_bytes, seconds", "take"
).upsert
SNAPSHOT_COPIED = Newest("snapshots", "rn, snapshot_id", "copied_to", "copy").upsert
SNAPSHOT_RELEASED = Newest("snapshots", "rn, snapshot_id", "release_reason", "release").upsert
SNAPSHOT_REFERENCED = "INSERT OR IGNORE INTO refs (rn, snapshot_id, checkpoint_id) VALUES (?, ?, ?)"
CHECKPOINT_PHASE = "INSERT OR IGNORE INTO checkpoint_phases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
STEP = "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
MODEL_CALL = "INSERT INTO model_calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

NEW_ROLLOUT = "INSERT INTO rollouts (rn, rollout_id, instance_id) VALUES (?, ?, ?) RETURNING rid"
QUEUED = """
UPDATE rollouts SET instance_id = :instance_id, sample = :sample, family = :family, repo = :repo, agent = :agent,
    agent_version = :agent_version, model = :model, queued_provider = :provider, tags = :tags,
    queued_at = :t, queue_t = :t, queue_tie = :tie
WHERE rid = :rid AND (queue_t IS NULL OR (:t, :tie) > (queue_t, queue_tie))
"""
RUN_STARTED = """
UPDATE runs SET name = :name, agent = :agent, model = :model, dataset = :dataset, source = :source,
    expected = :rollouts, tags = :tags, config_jn = :jn, config_at = :at, config_length = :length,
    start_t = :t, start_tie = :tie
WHERE rn = :rn AND (start_t IS NULL OR (:t, :tie) > (start_t, start_tie))
"""
RUN_COUNTED = """
UPDATE runs SET started_at = min(coalesce(started_at, :t), :t), times_resumed = times_resumed + :resumed WHERE rn = :rn
"""
RUN_ENDED = """
UPDATE runs SET end_reason = :reason, message = :message, end_t = :t, end_tie = :tie
WHERE rn = :rn AND (end_t IS NULL OR (:t, :tie) > (end_t, end_tie))
"""
INSTANCE = "INSERT OR IGNORE INTO instances VALUES (?)"
ATTEMPT_EXISTS = "INSERT OR IGNORE INTO attempts (rid, attempt) VALUES (?, ?)"
ATTEMPT_COUNTS = """
UPDATE attempts SET steps = steps + ?, step_tokens_in = step_tokens_in + ?, step_tokens_out = step_tokens_out + ?,
    calls = calls + ?, call_tokens_in = call_tokens_in + ?, call_tokens_out = call_tokens_out + ?
WHERE rid = ? AND attempt = ?
"""
TOUCHED = (
    "INSERT INTO touched VALUES (?, ?) "
    "ON CONFLICT (rid) DO UPDATE SET touched_at = max(touched.touched_at, excluded.touched_at)"
)
RUN_TOUCHED = "UPDATE runs SET updated_at = max(coalesce(updated_at, ?1), ?1), seq = ?2 WHERE rn = ?3"
NEW_JOURNAL = "INSERT OR IGNORE INTO journals (rn, name, tie, cut_at) VALUES (?, ?, ?, ?)"
JOURNAL_READ = """
UPDATE journals SET offset = ?1, lines = lines + ?2, bad = bad + ?3, newer = newer + ?4,
    owner = coalesce(?5, owner), is_closed = max(is_closed, ?6), cut_at = iif(cut_at > ?1, cut_at, NULL) WHERE jn = ?7
"""
