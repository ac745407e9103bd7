"""What changed since somebody last looked."""

from __future__ import annotations

from swe_sdk.errors import InputError
from swe_sdk.store.database import Database
from swe_sdk.store.pages import SELECT_ROLLOUTS, rollout_row
from swe_sdk.store.rows import Changes
from swe_sdk.store.run_rows import lives_still

_LAST = 2**62


def changes_since(db: Database, cursor: str | None, limit: int) -> Changes:
    """Rollouts whose row changed after a cursor, the oldest change first."""
    with db.snapshot():
        generation = db.generation
        of_generation, seq, rid = ("", 0, 0) if cursor is None else _decode(cursor)
        is_reset = of_generation != generation
        seq, rid = (0, 0) if is_reset else (seq, rid)
        sql = f"{SELECT_ROLLOUTS} WHERE (r.seq, r.rid) > (?, ?) ORDER BY r.seq, r.rid LIMIT ?"
        rows = db.rows(sql, (seq, rid, limit + 1))
        runs = db.rows("SELECT run FROM runs WHERE seq > ? ORDER BY run", (seq,))
        newest = db.value("SELECT seq FROM meta")
    more = len(rows) > limit
    rows = rows[:limit]
    place = (rows[-1]["seq"], rows[-1]["rid"]) if more else (newest, _LAST)
    return Changes(
        cursor=f"{generation}:{place[0]}:{place[1]}",
        is_reset=is_reset,
        rollouts=tuple(map(rollout_row, rows)),
        runs=tuple(row["run"] for row in runs),
        more=more,
    )


def version(db: Database) -> str:
    """Another text whenever any row is another one, or a writer that has not closed its journal lives no more."""
    with db.snapshot():
        newest = db.value("SELECT seq FROM meta")
        generation = db.generation
        writers = db.rows("SELECT owner, name FROM journals WHERE NOT is_closed ORDER BY jn")
    alive = "".join({True: "y", False: "n", None: "?"}[lives_still(*writer)] for writer in writers)
    return f"{generation}:{newest}:{alive}"


def _decode(cursor: str) -> tuple[str, int, int]:
    generation, *numbers = cursor.split(":")
    try:
        seq, rid = map(int, numbers)
    except ValueError as error:
        raise InputError("this is no cursor of changes") from error
    return generation, seq, rid
