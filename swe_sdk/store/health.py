"""How well an index follows its journals."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from swe_sdk.store.database import Database
from swe_sdk.store.filesystem import FileSystem, file_system
from swe_sdk.store.layout import events_folder
from swe_sdk.store.rows import IndexStatus
from swe_sdk.store.run_rows import lives_still
from swe_sdk.store.schema import INDEX_VERSION


def index_status(db: Database, root: Path) -> IndexStatus:
    """Counts, what could not be read, and why."""
    journals = db.rows("SELECT j.*, u.path FROM journals AS j JOIN runs AS u USING (rn)")
    unread = {_path(row): _size(_path(row)) - row["offset"] for row in journals}
    left = [_path(row) for row in journals if lives_still(row["owner"], row["name"]) is False]
    torn = [str(path) for path in left if unread[path] > 0]
    cut = [str(_path(row)) for row in journals if row["cut_at"] is not None]
    system = file_system(root)
    bad, newer = (sum(row[name] for row in journals) for name in ("bad", "newer"))
    return IndexStatus(
        path=str(db.path),
        schema_version=INDEX_VERSION,
        journals=len(journals),
        lines=sum(row["lines"] for row in journals),
        bad_lines=bad,
        newer_lines=newer,
        unread_bytes=sum(size for size in unread.values() if size > 0),
        torn=tuple(torn),
        cut=tuple(cut),
        file_system=system.type,
        is_network=system.is_network,
        notes=tuple(_notes(system, bad, newer, len(torn), cut)),
    )


def _notes(system: FileSystem, bad: int, newer: int, torn: int, cut: list[str]) -> Iterator[str]:
    yield f"{system.type}: {system.promise}"
    if bad:
        yield f"{bad} lines of journals could not be read and were left out"
    if newer:
        yield f"{newer} lines were written by a newer swe_sdk and were left out: use that version"
    if torn:
        yield f"{torn} journals end in half a line: their writers were killed while they wrote it"
    if cut:
        yield f"journals are shorter than they were, and what is cut off is lost: {', '.join(cut)}"


def _path(row: sqlite3.Row) -> Path:
    return events_folder(Path(row["path"])) / str(row["name"])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
