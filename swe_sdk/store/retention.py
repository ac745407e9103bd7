"""Checkpoints and snapshots of a run: what is kept, and what needs what."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from pathlib import Path

from swe_sdk.store.database import Database
from swe_sdk.store.on_disk import as_on_disk, kept_on_disk
from swe_sdk.store.rows import CheckpointPhaseRow, CheckpointRolloutRow, CheckpointRow, SnapshotRow
from swe_sdk.store.sum_rows import SnapshotTotals

_KEPT = "SELECT json_extract(value, '$[0]') AS rn, json_extract(value, '$[1]') AS checkpoint_id FROM json_each(?{})"
"""A table of what :func:`_kept` gives."""


def checkpoints(db: Database, rn: int | None) -> list[CheckpointRow]:
    """All of them, by the time at which they were complete; those that are not come last.

    Whether one is kept is what lies on the disk: its journal may have been cut before it could tell.
    """
    sql = """
    SELECT c.rn, u.run, c.checkpoint_id, c.state, c.state_reason, c.save_t AS saved_at, c.path, c.records, c.restarts,
        c.snapshots, c.size_bytes, c.seconds
    FROM (
        SELECT * FROM checkpoints UNION ALL
        SELECT DISTINCT rn, checkpoint_id, '', 0, 0, 0, 0, NULL, NULL, NULL, 'saving', '', NULL, NULL
        FROM checkpoint_phases AS p WHERE NOT EXISTS (
            SELECT 1 FROM checkpoints AS k WHERE k.rn = p.rn AND k.checkpoint_id = p.checkpoint_id
        )
    ) AS c JOIN runs AS u USING (rn)
    WHERE ?1 IS NULL OR c.rn = ?1
    """
    told: dict[int, list[CheckpointRow]] = defaultdict(list)
    for row in map(dict, db.rows(sql, (rn,))):
        told[row.pop("rn")].append(CheckpointRow.model_validate(row))
    found = [row for run in _runs(db, rn) for row in as_on_disk(run["run"], Path(run["path"]), told[run["rn"]])]
    return sorted(found, key=lambda row: (row.saved_at is None, row.saved_at or 0.0, row.checkpoint_id))


def told_checkpoints(db: Database, rn: int) -> dict[str, str]:
    """What the journals alone say of the state of each."""
    return {row[0]: row[1] for row in db.rows("SELECT checkpoint_id, state FROM checkpoints WHERE rn = ?", (rn,))}


def _runs(db: Database, rn: int | None) -> list[sqlite3.Row]:
    return db.rows("SELECT rn, run, path FROM runs WHERE ?1 IS NULL OR rn = ?1", (rn,))


def _kept(db: Database, rn: int | None) -> str:
    """Those that are kept, as JSON for a query: pairs of run and checkpoint."""
    told: dict[int, list[str]] = defaultdict(list)
    sql = "SELECT rn, checkpoint_id FROM checkpoints WHERE state = 'kept' AND (?1 IS NULL OR rn = ?1)"
    for row in db.rows(sql, (rn,)):
        told[row["rn"]].append(row["checkpoint_id"])
    kept = ((run["rn"], name) for run in _runs(db, rn) for name in kept_on_disk(Path(run["path"]), told[run["rn"]]))
    return json.dumps(list(kept))


def checkpoint_phases(db: Database, rn: int, checkpoint_id: str | None) -> list[CheckpointPhaseRow]:
    """Operations in the order in which they ended."""
    sql = """
    SELECT checkpoint_id, t AS at, operation, participant, seconds, ok, message FROM checkpoint_phases
    WHERE rn = ?1 AND (?2 IS NULL OR checkpoint_id = ?2) ORDER BY t, tie
    """
    return [CheckpointPhaseRow.model_validate(dict(row)) for row in db.rows(sql, (rn, checkpoint_id))]


def checkpoint_rollouts(db: Database, rn: int, checkpoint_id: str) -> list[CheckpointRolloutRow]:
    """What it holds, by rollout."""
    sql = """
    SELECT checkpoint_id, rollout_id, attempt, held, boundary, tier, reason, spent_s, steps FROM checkpoint_rollouts
    WHERE rn = ? AND checkpoint_id = ? ORDER BY rollout_id
    """
    return [CheckpointRolloutRow.model_validate(dict(row)) for row in db.rows(sql, (rn, checkpoint_id))]


def snapshots(db: Database, rn: int | None) -> list[SnapshotRow]:
    """All of them, released ones included, by the time at which they were taken."""
    sql = f"""
    WITH kept AS MATERIALIZED ({_KEPT.format(2)})
    SELECT u.run, s.snapshot_id, s.checkpoint_id, s.rollout_id, s.attempt, s.provider, s.node, s.copied_to,
        s.size_bytes, s.seconds, s.take_t AS taken_at, s.release_t AS released_at, s.release_reason,
        coalesce(json_group_array(f.checkpoint_id) FILTER (WHERE f.checkpoint_id IS NOT NULL), '[]') AS referenced_by,
        coalesce(json_group_array(f.checkpoint_id) FILTER (WHERE k.rn IS NOT NULL), '[]') AS kept_by
    FROM snapshots AS s JOIN runs AS u USING (rn) LEFT JOIN refs AS f USING (rn, snapshot_id)
    LEFT JOIN kept AS k ON k.rn = f.rn AND k.checkpoint_id = f.checkpoint_id
    WHERE ?1 IS NULL OR s.rn = ?1 GROUP BY s.rn, s.snapshot_id ORDER BY s.take_t, s.snapshot_id
    """
    rows = map(dict, db.rows(sql, (rn, _kept(db, rn))))
    return [SnapshotRow.model_validate({**row, **_lists(row)}) for row in rows]


def restores(db: Database, rn: int) -> dict[str, int]:
    """How many attempts went on from each checkpoint."""
    sql = """
    SELECT a.restored_from, count(*) FROM rollouts AS r JOIN attempts AS a ON a.rid = r.rid
    WHERE r.rn = ? AND a.restored_from IS NOT NULL GROUP BY a.restored_from
    """
    return {row[0]: row[1] for row in db.rows(sql, (rn,))}


def snapshot_totals(db: Database) -> list[SnapshotTotals]:
    """For each run that has any; those in trouble first, then the largest."""
    sql = f"""
    WITH kept AS MATERIALIZED ({_KEPT.format(1)})
    SELECT u.run, t.* FROM (
        SELECT s.rn, count(*) AS snapshots, sum(s.release_t IS NULL) AS there,
            sum(CASE WHEN s.release_t IS NULL THEN s.size_bytes END) AS there_bytes,
            sum(s.release_t IS NOT NULL) AS released, sum(s.release_t IS NULL AND k.rn IS NULL) AS leaks,
            sum(CASE WHEN s.release_t IS NULL AND k.rn IS NULL THEN s.size_bytes END) AS leaked_bytes,
            sum(s.release_t IS NOT NULL AND k.rn IS NOT NULL) AS violations
        FROM snapshots AS s LEFT JOIN (
            SELECT DISTINCT f.rn, f.snapshot_id FROM kept JOIN refs AS f USING (rn, checkpoint_id)
        ) AS k ON k.rn = s.rn AND k.snapshot_id = s.snapshot_id
        GROUP BY s.rn
    ) AS t JOIN runs AS u USING (rn) ORDER BY t.violations DESC, t.leaks DESC, t.there_bytes DESC, u.run
    """
    rows = db.rows(sql, (_kept(db, None),))
    return [SnapshotTotals.model_validate({name: row[name] for name in SnapshotTotals.model_fields}) for row in rows]


def _lists(row: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(sorted(json.loads(row[name]))) for name in ("referenced_by", "kept_by")}
