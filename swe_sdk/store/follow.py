"""Bringing an index up to date: what was written to the journals since goes into its tables."""

from __future__ import annotations

import sqlite3
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
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
from swe_sdk.store.statements import JOURNAL_READ, NEW_JOURNAL

_BATCH_BYTES = 8 << 20
_BATCH_JOURNALS = 100
_ANALYZE_EVERY = 20_000

Told = Callable[[int, int], None]
"""Hears how many bytes of journals are indexed by now, of how many that there were."""


class JournalCut(UserWarning):
    """A journal is shorter than it once was: somebody has cut it, and what it said after that is lost."""


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
        self._taken_bytes = 0
        self._looked_at: set[str] = set()
        """Runs whose closed journals were looked at too: once is enough, since nobody writes them."""

    def refresh(self, told: Told | None = None) -> int:
        """Index all that is on the disk now; returns how many lines that were. ``told`` hears how far it is."""
        with self._lock:
            try:
                return self._refresh(told)
            except IndexDamaged:
                return self._refresh(told)

    def _refresh(self, told: Told | None) -> int:
        runs = self._catalog.runs()
        known = self._known()
        for run in known.keys() - runs.keys():
            self._forget(known[run].rn)
        hears = self._counting(told, runs, known)
        count = sum(self._follow(known.get(run) or self._add_run(run, path), path, hears) for run, path in runs.items())
        self._unanalyzed += count
        if not self._db.has_indexes:
            self._db.build_indexes()
        elif self._unanalyzed > _ANALYZE_EVERY:
            self._db.analyze()
            self._unanalyzed = 0
        return count

    def _counting(self, told: Told | None, runs: Mapping[str, Path], known: Mapping[str, _Known]) -> Callable[[], None]:
        """Tells how far it is each time that it is called."""
        if told is None:
            return lambda: None
        there = sum(size for path in runs.values() for _name, size in self._catalog.journals(path, frozenset()))
        had = sum(row["offset"] for one in known.values() for row in one.journals.values())
        self._taken_bytes = 0
        return lambda: told(had + self._taken_bytes, max(there, had + self._taken_bytes))

    def _known(self) -> dict[str, _Known]:
        with self._db.snapshot():  # another process may add a run meanwhile
            runs = self._db.rows("SELECT run, rn FROM runs")
            journals = self._db.rows("SELECT u.run, j.* FROM journals AS j JOIN runs AS u USING (rn)")
        known = {row["run"]: _Known(row["run"], row["rn"], {}) for row in runs}
        for row in journals:
            known[row["run"]].journals[row["name"]] = row
        return known

    def _add_run(self, run: str, run_dir: Path, cut: Mapping[str, int] = MappingProxyType({})) -> _Known:
        """``cut`` are journals of it that were longer once, and how long."""
        with self._db.writing() as db:
            db.execute("INSERT OR IGNORE INTO runs (run, path) VALUES (?, ?)", (run, str(run_dir)))
            rn = db.execute("SELECT rn FROM runs WHERE run = ?", (run,)).fetchone()["rn"]
            db.executemany(NEW_JOURNAL, [(rn, name, _tie(name), size) for name, size in cut.items()])
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

    def _follow(self, known: _Known, run_dir: Path, told: Callable[[], None]) -> int:
        total = 0
        is_new = known.run not in self._looked_at
        sizes = self._sizes(run_dir, {} if is_new else known.journals)
        cut: dict[str, int] = {}
        if _is_other(known.journals, sizes):
            cut = _cut(known.journals, sizes)
            self._forget(known.rn)
            known = self._add_run(known.run, run_dir, cut)
            sizes = self._sizes(run_dir, {})
        if is_new or cut:
            self._looked_at.add(known.run)
            _warn(known, events_folder(run_dir))
        while tails := list(islice(self._tails(known, sizes, events_folder(run_dir)), _BATCH_JOURNALS)):
            with self._db.writing() as db:
                count = self._take(db, known.rn, tails)
            total += count
            told()
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
        with self._db.writing() as db:
            db.execute(NEW_JOURNAL, (rn, name, _tie(name), None))
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
        self._taken_bytes += end - row["offset"]
        db.execute(JOURNAL_READ, (end, len(lines), bad, newer, fold.owner, fold.is_closed, jn))
        fold.owner, fold.is_closed = None, False


def _tie(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "surrogateescape")) << 31


def _cut(journals: Mapping[str, sqlite3.Row], sizes: Mapping[str, int]) -> dict[str, int]:
    """Journals that are shorter than what was read of them, and how long they once were."""
    lengths = {name: max(row["offset"], row["cut_at"] or 0) for name, row in journals.items()}
    return {name: length for name, length in lengths.items() if 0 <= sizes.get(name, -1) < length}


def _warn(known: _Known, folder: Path) -> None:
    for row in known.journals.values():
        if row["cut_at"] is not None:
            told = f"{folder / row['name']} is shorter than it was ({row['cut_at']} bytes)"
            remedy = "what is cut off is lost, unless it is put back from a copy"
            warnings.warn(f"{told}: {remedy}", JournalCut, stacklevel=6)


def _is_other(journals: Mapping[str, sqlite3.Row], sizes: Mapping[str, int]) -> bool:
    """Whether a journal that was read is not there any more, or is shorter than what was read of it."""
    return any(name not in sizes or 0 <= sizes[name] < row["offset"] for name, row in journals.items())
