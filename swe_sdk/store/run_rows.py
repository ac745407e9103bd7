"""Runs: what they are, how far they are, whether somebody still works on them."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from swe_sdk.sandbox.owner import current_owner, is_alive, parse_owner
from swe_sdk.store.database import Database
from swe_sdk.store.journal import is_open_here
from swe_sdk.store.rows import RunRow
from swe_sdk.store.summaries import GRADED

_PLAIN = (
    "run", "path", "name", "agent", "model", "dataset", "source", "started_at", "times_resumed", "expected", "message",
    "updated_at",
)  # fmt: skip

Writer = tuple[str | None, str]


def run_rows(db: Database, rn: int | None = None) -> list[RunRow]:
    """All runs, or the one of a number; the newest first."""
    only, parameters = ("1", ()) if rn is None else ("rn = ?", (rn,))
    with db.snapshot():
        runs = db.rows(f"SELECT * FROM runs WHERE {only} ORDER BY started_at DESC, run", parameters)
        counted = db.rows(
            f"SELECT rn, status, count(*), sum(reward) FROM rollouts WHERE {only} GROUP BY rn, status", parameters
        )
        writers = _writers(db)
    counts = _by_status(counted, 2)
    rewards = _by_status(counted, 3)
    return [_run_row(row, counts[row["rn"]], rewards[row["rn"]], writers[row["rn"]]) for row in runs]


def _by_status(rows: Iterable[sqlite3.Row], column: int) -> defaultdict[int, dict[str, Any]]:
    found: defaultdict[int, dict[str, Any]] = defaultdict(dict)
    for row in rows:
        found[row["rn"]][row["status"]] = row[column]
    return found


def _mean(counts: dict[str, int], rewards: dict[str, float]) -> float | None:
    graded = sum(counts.get(status, 0) for status in GRADED)
    return sum(rewards.get(status, 0.0) for status in GRADED) / graded if graded else None


def _writers(db: Database) -> defaultdict[int, list[Writer]]:
    """Owner and name of each journal that was not closed."""
    found: defaultdict[int, list[Writer]] = defaultdict(list)
    for rn, owner, name in db.rows("SELECT rn, owner, name FROM journals WHERE NOT is_closed"):
        found[rn].append((owner, name))
    return found


def _run_row(row: sqlite3.Row, counts: dict[str, int], rewards: dict[str, float], writers: list[Writer]) -> RunRow:
    is_ended = row["end_t"] is not None and (row["start_t"] is None or row["end_t"] > row["start_t"])
    more: dict[str, Any] = {
        "ended_at": row["end_t"] if is_ended else None,
        "end_reason": row["end_reason"] if is_ended else None,
        "tags": json.loads(row["tags"]),
        "counts": counts,
        "rollouts": sum(counts.values()),
        "reward_mean": _mean(counts, rewards),
        "alive": any_alive(writers),
    }
    return RunRow.model_validate({**{name: row[name] for name in _PLAIN}, **more})


def any_alive(writers: Iterable[Writer]) -> bool | None:
    """Whether one of some writers lives; False is certain, None is not known from here."""
    lives = [lives_still(*writer) for writer in writers]
    return True if True in lives else None if None in lives else False


def lives_still(owner: str | None, journal: str) -> bool | None:
    """Whether a journal is written still; None where that cannot be known from here."""
    known = None if owner is None else parse_owner(owner)
    if known == current_owner():
        return is_open_here(journal)  # one of ours may have ended without its last line, on a full disk
    return None if known is None else is_alive(known)
