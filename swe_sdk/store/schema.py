"""The tables of the index.

Everything in them is made from journals, by statements that give the same rows in whatever order the lines come:
*newest wins* (a pair ``_t``, ``_tie`` beside a group of columns says which event set them), least, greatest, or sum.
``rollouts`` has a row for each rollout, whose derived columns are computed from the other tables (:mod:`derive`).

There are no migrations: an index of other tables is another file, built anew from the journals.
"""

from __future__ import annotations

from swe_sdk.store.filters import SORT_COLUMNS

INDEX_VERSION = 1
"""Part of the file's name, beside a digest of the tables. It grows when the same tables are filled otherwise."""

_RUNS = """
CREATE TABLE meta (generation TEXT NOT NULL, seq INTEGER NOT NULL);
CREATE TABLE runs (
    rn INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '', agent TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',
    dataset TEXT NOT NULL DEFAULT '', source TEXT NOT NULL DEFAULT '', expected INTEGER,
    tags TEXT NOT NULL DEFAULT '{}',
    config_jn INTEGER, config_at INTEGER, config_length INTEGER, start_t REAL, start_tie INTEGER,
    started_at REAL, times_resumed INTEGER NOT NULL DEFAULT 0,
    end_reason TEXT, message TEXT NOT NULL DEFAULT '', end_t REAL, end_tie INTEGER,
    updated_at REAL, seq INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE journals (
    jn INTEGER PRIMARY KEY AUTOINCREMENT, rn INTEGER NOT NULL, name TEXT NOT NULL, tie INTEGER NOT NULL,
    offset INTEGER NOT NULL DEFAULT 0, lines INTEGER NOT NULL DEFAULT 0, bad INTEGER NOT NULL DEFAULT 0,
    newer INTEGER NOT NULL DEFAULT 0, owner TEXT, is_closed INTEGER NOT NULL DEFAULT 0, cut_at INTEGER,
    UNIQUE (rn, name)
);
"""

_ROLLOUTS = """
CREATE TABLE rollouts (
    rid INTEGER PRIMARY KEY, rn INTEGER NOT NULL, rollout_id TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'queued', mask_kind TEXT, mask_stage TEXT, reward REAL,
    instance_id TEXT NOT NULL, family TEXT NOT NULL DEFAULT '', repo TEXT NOT NULL DEFAULT '',
    agent TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '', provider TEXT NOT NULL DEFAULT '',
    stage TEXT, attempt INTEGER NOT NULL DEFAULT 0, total_s REAL, spent_s REAL NOT NULL DEFAULT 0,
    parked_s REAL NOT NULL DEFAULT 0, queued_s REAL NOT NULL DEFAULT 0, remaining_s REAL,
    steps INTEGER NOT NULL DEFAULT 0, tokens_in INTEGER NOT NULL DEFAULT 0, tokens_out INTEGER NOT NULL DEFAULT 0,
    model_calls INTEGER NOT NULL DEFAULT 0, queued_at REAL, started_at REAL, ended_at REAL, seconds REAL,
    updated_at REAL, seq INTEGER NOT NULL DEFAULT 0, sample INTEGER NOT NULL DEFAULT 0,
    agent_version TEXT NOT NULL DEFAULT '', queued_provider TEXT NOT NULL DEFAULT '', queue_t REAL, queue_tie INTEGER,
    restored_from TEXT, fail_to_pass_passed INTEGER, fail_to_pass_total INTEGER, pass_to_pass_passed INTEGER,
    pass_to_pass_total INTEGER, tags TEXT NOT NULL DEFAULT '{}', flags TEXT NOT NULL DEFAULT '[]', patch_sha256 TEXT,
    reason TEXT NOT NULL DEFAULT '', UNIQUE (rn, rollout_id)
);
CREATE TABLE instances (instance_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE tags (rid INTEGER, key TEXT, value TEXT, PRIMARY KEY (rid, key)) WITHOUT ROWID;
CREATE INDEX tags_by_value ON tags (key, value);
CREATE TABLE endings (
    rid INTEGER PRIMARY KEY, attempt INTEGER NOT NULL, status TEXT NOT NULL, reward REAL NOT NULL, reason TEXT NOT NULL,
    end_t REAL, end_tie INTEGER
);
CREATE TABLE attempts (
    rid INTEGER, attempt INTEGER, provider TEXT NOT NULL DEFAULT '', restored_from TEXT, boundary TEXT,
    restart_reason TEXT NOT NULL DEFAULT '', start_t REAL, start_tie INTEGER,
    end_reason TEXT, message TEXT NOT NULL DEFAULT '', exit_code INTEGER, will_retry INTEGER NOT NULL DEFAULT 0,
    end_t REAL, end_tie INTEGER,
    is_parked INTEGER NOT NULL DEFAULT 0, park_t REAL, park_tie INTEGER,
    steps INTEGER NOT NULL DEFAULT 0, step_tokens_in INTEGER NOT NULL DEFAULT 0,
    step_tokens_out INTEGER NOT NULL DEFAULT 0, calls INTEGER NOT NULL DEFAULT 0,
    call_tokens_in INTEGER NOT NULL DEFAULT 0, call_tokens_out INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (rid, attempt)
) WITHOUT ROWID;
CREATE TABLE stages (
    rid INTEGER, attempt INTEGER, stage TEXT, start_t REAL, start_tie INTEGER,
    seconds REAL, ok INTEGER, message TEXT NOT NULL DEFAULT '', end_t REAL, end_tie INTEGER,
    PRIMARY KEY (rid, attempt, stage)
) WITHOUT ROWID;
CREATE TABLE outcomes (
    rid INTEGER, attempt INTEGER, status TEXT, reward REAL, reason TEXT, flags TEXT, provider TEXT,
    fail_to_pass_passed INTEGER, fail_to_pass_total INTEGER, pass_to_pass_passed INTEGER, pass_to_pass_total INTEGER,
    patch_sha256 TEXT, jn INTEGER, at INTEGER, length INTEGER, out_t REAL, out_tie INTEGER,
    PRIMARY KEY (rid, attempt)
) WITHOUT ROWID;
CREATE TABLE verdicts (
    rid INTEGER, attempt INTEGER, tests TEXT, test TEXT, status TEXT, PRIMARY KEY (rid, attempt, tests, test)
) WITHOUT ROWID;
CREATE TABLE masks (
    rid INTEGER, attempt INTEGER, kind TEXT, stage TEXT, mask TEXT, mask_t REAL, mask_tie INTEGER,
    PRIMARY KEY (rid, attempt)
) WITHOUT ROWID;
CREATE INDEX masks_by_kind ON masks (kind, mask_t);
CREATE INDEX masks_by_time ON masks (mask_t);
CREATE TABLE budgets (
    rid INTEGER, attempt INTEGER, total_s REAL, spent_s REAL, parked_s REAL, queued_s REAL, bud_t REAL, bud_tie INTEGER,
    PRIMARY KEY (rid, attempt)
) WITHOUT ROWID;
CREATE TABLE steps (
    rid INTEGER, attempt INTEGER, n INTEGER, jn INTEGER, at INTEGER, length INTEGER, t REAL, step_kind TEXT,
    seconds REAL, tokens_in INTEGER, tokens_out INTEGER, PRIMARY KEY (rid, attempt, n, jn, at)
) WITHOUT ROWID;
CREATE TABLE model_calls (
    rid INTEGER, attempt INTEGER, t REAL, jn INTEGER, at INTEGER, length INTEGER, model TEXT, status INTEGER,
    seconds REAL, tokens_in INTEGER, tokens_out INTEGER, PRIMARY KEY (rid, attempt, t, jn, at)
) WITHOUT ROWID;
CREATE TABLE artifacts (
    rn INTEGER, rid INTEGER, attempt INTEGER, name TEXT, role TEXT, path TEXT, size_bytes INTEGER, stored_bytes INTEGER,
    encoding TEXT, is_open INTEGER, art_t REAL, art_tie INTEGER, PRIMARY KEY (rn, rid, attempt, name)
) WITHOUT ROWID;
"""

_CHECKPOINTS = """
CREATE TABLE checkpoints (
    rn INTEGER, checkpoint_id TEXT, path TEXT NOT NULL DEFAULT '', records INTEGER NOT NULL DEFAULT 0,
    restarts INTEGER NOT NULL DEFAULT 0, snapshots INTEGER NOT NULL DEFAULT 0, size_bytes INTEGER NOT NULL DEFAULT 0,
    seconds REAL, save_t REAL, save_tie INTEGER, state TEXT NOT NULL DEFAULT 'saving',
    state_reason TEXT NOT NULL DEFAULT '', state_t REAL, state_tie INTEGER, PRIMARY KEY (rn, checkpoint_id)
) WITHOUT ROWID;
CREATE TABLE checkpoint_phases (
    rn INTEGER, checkpoint_id TEXT, t REAL, tie INTEGER, operation TEXT, participant TEXT, seconds REAL, ok INTEGER,
    message TEXT, PRIMARY KEY (rn, checkpoint_id, t, tie)
) WITHOUT ROWID;
CREATE TABLE checkpoint_rollouts (
    rn INTEGER, checkpoint_id TEXT, rollout_id TEXT, attempt INTEGER, held TEXT, boundary TEXT, tier TEXT, reason TEXT,
    spent_s REAL, steps INTEGER, held_t REAL, held_tie INTEGER, PRIMARY KEY (rn, checkpoint_id, rollout_id)
) WITHOUT ROWID;
CREATE TABLE snapshots (
    rn INTEGER, snapshot_id TEXT, checkpoint_id TEXT NOT NULL DEFAULT '', rollout_id TEXT NOT NULL DEFAULT '',
    attempt INTEGER, provider TEXT NOT NULL DEFAULT '', node TEXT NOT NULL DEFAULT '', size_bytes INTEGER,
    seconds REAL NOT NULL DEFAULT 0, take_t REAL, take_tie INTEGER,
    copied_to TEXT NOT NULL DEFAULT '', copy_t REAL, copy_tie INTEGER,
    release_reason TEXT NOT NULL DEFAULT '', release_t REAL, release_tie INTEGER, PRIMARY KEY (rn, snapshot_id)
) WITHOUT ROWID;
CREATE TABLE refs (
    rn INTEGER, snapshot_id TEXT, checkpoint_id TEXT, PRIMARY KEY (rn, snapshot_id, checkpoint_id)
) WITHOUT ROWID;
"""

TABLES = _RUNS + _ROLLOUTS + _CHECKPOINTS
_FILTERED = ("status", "mask_kind", "rn", "reward")
_SEARCHED = dict.fromkeys(("rollout_id", "repo"), ("instance_id",))
"""Columns whose order has to do with what is searched for."""


def _sort_index(column: str) -> str:
    others = (name for name in (*_FILTERED, *_SEARCHED.get(column, ())) if name != column)
    return f"rollouts ({', '.join((column, 'rid', *others))})"


_SORTED = {f"rollouts_by_{column}": _sort_index(column) for column in SORT_COLUMNS}
_SUMMED = {
    "rollouts_by_run": "rollouts (rn, status, reward)",
    "rollouts_facets": "rollouts (family, provider, agent, model, repo, mask_stage, status, mask_kind, rn)",
    "rollouts_budgets": "rollouts (rn, status, total_s, spent_s, parked_s, queued_s, remaining_s)",
    "stages_seconds": "stages (stage, rid, seconds, ok) WHERE end_t IS NOT NULL",
}
INDEXES = {**_SORTED, **_SUMMED}
"""Built after the first filling. A page sorted by any column, and filtered by what is asked for most, goes through one
of them and touches the table for the rows that are shown; counts and sums touch it not at all."""
LAST_INDEX = list(INDEXES)[-1]
TABLES_OF_ROLLOUTS = (
    "tags",
    "endings",
    "attempts",
    "stages",
    "outcomes",
    "verdicts",
    "masks",
    "budgets",
    "steps",
    "model_calls",
)
"""Tables with ``rid`` and without ``rn``."""
RUN_TABLES = (
    "artifacts",
    "checkpoints",
    "checkpoint_phases",
    "checkpoint_rollouts",
    "snapshots",
    "refs",
    "rollouts",
    "journals",
    "runs",
)
"""Tables with ``rn``."""


def index_statements() -> list[str]:
    """What makes the indexes that are not part of the tables."""
    return [f"CREATE INDEX IF NOT EXISTS {name} ON {columns}" for name, columns in INDEXES.items()]
