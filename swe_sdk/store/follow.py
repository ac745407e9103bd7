"""Bringing an index up to date: what was written to the journals since goes into its tables."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from swe_sdk.errors import IndexDamaged
from swe_sdk.model.ids import new_id
from swe_sdk.store.catalog import Catalog
from swe_sdk.store.database import Database
from swe_sdk.store.fold import At, Fold
from swe_sdk.store.layout import events_folder
from swe_sdk.store.lines import BadLine, NewerLine, decode_line
from swe_sdk.store.reading import RawLine, read_lines
from swe_sdk.store.schema import RUN_TABLES, TABLES_OF_ROLLOUTS
from swe_sdk.store.statements import JOURNAL_READ

_BATCH_BYTES = 8 << 20
_BATCH_JOURNALS = 100
_ANALYZE_EVERY = 20_000


class _Tail(NamedTuple):
    """A journal with something in it that is not indexed yet."""

    jn: int
    path: Path
    size: int


class _Known(NamedTuple):
    """What the index has of a run."""

    run: str
    rn: int
    journals: dict[str, sqlite3.Row]


class Follower:
    """Reads journals into a database. Several processes may do so for one database: a line is taken once."""

    def __init__(self, db: Database, catalog: Catalog) -> None:
        self._db, self._catalog = db, catalog
        self._lock = threading.Lock()
        self._torn: dict[tuple[int, int], int] = {}
        self._unanalyzed = 0
        self._batch_bytes = _BATCH_BYTES

    def refresh(self) -> int:
        """Index all that is on the disk now; returns how many lines that were."""
        with self._lock:
            try:
                return self._refresh()
            except IndexDamaged:
                return self._refresh()

    def _refresh(self) -> int:
        runs = self._catalog.runs()
        known = self._known()
        for run in known.keys() - runs.keys():
            self._forget(known[run].rn)
        count = sum(self._follow(known.get(run) or self._add_run(run, path), path) for run, path in runs.items())
        self._unanalyzed += count
        if not self._db.has_indexes:
            self._db.build_indexes()
        elif self._unanalyzed > _ANALYZE_EVERY:
            self._db.analyze()
            self._unanalyzed = 0
        return count

    def _known(self) -> dict[str, _Known]:
        with self._db.snapshot():  # another process may add a run meanwhile
            runs = self._db.rows("SELECT run, rn FROM runs")
            journals = self._db.rows("SELECT u.run, j.* FROM journals AS j JOIN runs AS u USING (rn)")
        known = {row["run"]: _Known(row["run"], row["rn"], {}) for row in runs}
        for row in journals:
            known[row["run"]].journals[row["name"]] = row
        return known

    def _add_run(self, run: str, run_dir: Path) -> _Known:
        with self._db.writing() as db:
            db.execute("INSERT OR IGNORE INTO runs (run, path) VALUES (?, ?)", (run, str(run_dir)))
            rn = db.execute("SELECT rn FROM runs WHERE run = ?", (run,)).fetchone()["rn"]
        return _Known(run, rn, self._journals(rn))

    def _journals(self, rn: int) -> dict[str, sqlite3.Row]:
        return {row["name"]: row for row in self._db.rows("SELECT * FROM journals WHERE rn = ?", (rn,))}

    def _forget(self, rn: int) -> None:
        with self._db.writing() as db:
            for table in TABLES_OF_ROLLOUTS:
                db.execute(f"DELETE FROM {table} WHERE rid IN (SELECT rid FROM rollouts WHERE rn = ?)", (rn,))
            for table in RUN_TABLES:
                db.execute(f"DELETE FROM {table} WHERE rn = ?", (rn,))
            db.execute("UPDATE meta SET generation = ?", (new_id("index"),))

    # -- one run -----------------------------------------------------------------------------------------------------

    def _follow(self, known: _Known, run_dir: Path) -> int:
        total = 0
        sizes = self._sizes(run_dir, known.journals)
        if _is_other(known.journals, sizes):
            self._forget(known.rn)
            known = self._add_run(known.run, run_dir)
            sizes = self._sizes(run_dir, {})
        while tails := list(islice(self._tails(known, sizes, events_folder(run_dir)), _BATCH_JOURNALS)):
            with self._db.writing() as db:
                count = self._take(db, known.rn, tails)
            total += count
            known = known._replace(journals=self._journals(known.rn))
        return total

    def _sizes(self, run_dir: Path, known: Mapping[str, sqlite3.Row]) -> dict[str, int]:
        closed = frozenset(name for name, row in known.items() if row["is_closed"])
        return dict(self._catalog.journals(run_dir, closed))

    def _tails(self, known: _Known, sizes: dict[str, int], folder: Path) -> Iterator[_Tail]:
        for name, size in sizes.items():
            row = known.journals.get(name) or self._add_journal(known.rn, name)
            if size > row["offset"] and self._torn.get((self._db.epoch, row["jn"])) != size:
                yield _Tail(row["jn"], folder / name, size)

    def _add_journal(self, rn: int, name: str) -> sqlite3.Row:
        tie = zlib.crc32(name.encode("utf-8", "surrogateescape")) << 31
        with self._db.writing() as db:
            db.execute("INSERT OR IGNORE INTO journals (rn, name, tie) VALUES (?, ?, ?)", (rn, name, tie))
        return self._journals(rn)[name]

    def _take(self, db: sqlite3.Connection, rn: int, tails: list[_Tail]) -> int:
        """Some lines of each journal, in one transaction; how many."""
        seq = db.execute("UPDATE meta SET seq = seq + 1 RETURNING seq").fetchone()[0]
        fold, count = Fold(db, rn), 0
        share = max(self._batch_bytes // len(tails), 1 << 16)
        for tail in tails:
            row = db.execute("SELECT offset, lines, tie FROM journals WHERE jn = ?", (tail.jn,)).fetchone()
            lines = read_lines(tail.path, row["offset"], share) if row is not None else []
            if not lines:
                self._torn[self._db.epoch, tail.jn] = tail.size  # nothing to be had until it grows
            else:
                self._read(db, fold, tail.jn, row, lines)
                count += len(lines)
        fold.write(seq)
        return count

    def _read(self, db: sqlite3.Connection, fold: Fold, jn: int, row: sqlite3.Row, lines: list[RawLine]) -> None:
        bad = newer = 0
        for at, data in lines:
            try:
                line = decode_line(data)
            except NewerLine:
                newer += 1
            except BadLine:
                bad += 1
            else:
                fold.add(line.event, At(line.t, row["tie"] + line.n, jn, at, len(data)))
        end = lines[-1].at + len(lines[-1].data) + 1
        db.execute(JOURNAL_READ, (end, len(lines), bad, newer, fold.owner, fold.is_closed, jn))
        fold.owner, fold.is_closed = None, False


def _is_other(journals: Mapping[str, sqlite3.Row], sizes: Mapping[str, int]) -> bool:
    """Whether a journal that was read is not there any more, or is shorter than what was read of it."""
    return any(name not in sizes or 0 <= sizes[name] < row["offset"] for name, row in journals.items())
