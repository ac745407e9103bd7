"""The file of an index: SQLite, on a local disk, and of no value by itself."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from swe_sdk.errors import IndexDamaged, InputError, NoSpace, PrerequisiteError, RunClosed
from swe_sdk.model.ids import new_id
from swe_sdk.store.schema import LAST_INDEX, TABLES, index_statements

_LEAST_SQLITE = (3, 35)  # RETURNING
_WAIT_S = 60.0
_WAL_BYTES = 64 << 20
_BROKEN = ("malformed", "not a database", "disk image", "corrupt")
_OPEN_AGAIN = "open it again: swe.open_run, or swe_sdk.store.index.open_index"
_LAST_INDEX = "SELECT 1 FROM sqlite_master WHERE name = ?"
Parameters = Sequence[object] | dict[str, object]


class Database:
    """Two connections, each used by one thread at a time: readers do not wait for the writer.

    Another process may have the same file open; one of them writes at a time. A file that turns out to be damaged is
    replaced by an empty one, to be filled again: whoever finds it gets ``IndexDamaged``, and the file is another one
    (``epoch``) from then on. ``NoSpace`` where the disk is full, ``InputError`` where there can be no such file,
    ``PrerequisiteError`` where this Python's SQLite is too old, ``RunClosed`` after :meth:`close`.

    ``about`` is what it is an index of.
    """

    def __init__(self, path: Path, *, about: Path) -> None:
        if sqlite3.sqlite_version_info < _LEAST_SQLITE:
            why = f"the SQLite of this Python is {sqlite3.sqlite_version}, and too old to list runs"
            raise PrerequisiteError(why, remedy="use a Python with SQLite 3.35 or newer, such as those of uv")
        self.path, self._about = path, about
        self.epoch = 0
        self._has_indexes = self._is_closed = False
        self._write_lock, self._read_lock = threading.RLock(), threading.RLock()
        self._writer, self._reader = self._open()

    def rows(self, sql: str, parameters: Parameters = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        with self._typed(), self._read_lock:
            return self._reader.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Parameters = ()) -> sqlite3.Row | None:
        """The first row of a query."""
        with self._typed(), self._read_lock:
            found: sqlite3.Row | None = self._reader.execute(sql, parameters).fetchone()
            return found

    def value(self, sql: str, parameters: Parameters = ()) -> object:
        """The first column of the first row."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All queries within see the same state, whatever is written meanwhile."""
        with self._typed(), self._read_lock:
            self._reader.execute("BEGIN")
            try:
                yield
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; no other process writes meanwhile. All of it is there afterwards, or nothing."""
        with self._typed(), self._write_lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @property
    def generation(self) -> str:
        """Another one for each time that the index was made anew, or a run was taken out of it."""
        return str(self.value("SELECT generation FROM meta"))

    def build_indexes(self) -> None:
        """What makes queries fast; left out while an empty index is filled, which is faster without."""
        with self.writing() as db:
            for statement in index_statements():
                db.execute(statement)
        self.analyze()

    def analyze(self) -> None:
        """Tell the planner how much of what there is. A few milliseconds, however much that is."""
        with self.writing() as db:
            db.execute("ANALYZE")

    @property
    def has_indexes(self) -> bool:
        """Whether they are there."""
        self._has_indexes = self._has_indexes or self.value(_LAST_INDEX, (LAST_INDEX,)) is not None
        return self._has_indexes

    def close(self) -> None:
        """Close both connections. A second call does nothing."""
        self._is_closed = True
        self._close()

    def _close(self) -> None:
        with self._read_lock, self._write_lock:  # always in this order
            self._writer.close()
            self._reader.close()

    @contextmanager
    def _typed(self) -> Iterator[None]:
        epoch = self.epoch
        try:
            yield
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                self._replace(epoch)
                raise IndexDamaged(f"the index {self.path} was damaged", remedy="ask again: it is made anew") from error
            if "disk is full" in str(error):
                why = f"cannot write the index {self.path}: {error}"
                raise NoSpace(why, remedy="free space, or set SWE_SDK_INDEX to another disk") from error
            if self._is_closed:
                raise RunClosed(f"{self._about} was closed", remedy=_OPEN_AGAIN) from error
            raise

    def _replace(self, epoch: int) -> None:
        with self._read_lock, self._write_lock:
            if self.epoch == epoch:
                self._close()
                self._remove()
                self._has_indexes = False
                self._writer, self._reader = self._connect()
                self.epoch += 1

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _open(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise unusable(self.path, str(error)) from error
            self._remove()
            return self._connect()

    def _connect(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        writer = _connection(self.path)
        try:
            _create_tables(writer)
            return writer, _connection(self.path)
        except BaseException:
            writer.close()
            raise


def unusable(path: Path, problem: str) -> InputError:
    """For an index that can be neither made nor opened where it is to be."""
    remedy = "set SWE_SDK_INDEX to a folder on a local disk that can be written and has room"
    return InputError(f"cannot use the index {path}: {problem}", remedy=remedy)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return any(word in str(error) for word in _BROKEN)


def _create_tables(db: sqlite3.Connection) -> None:
    db.execute("BEGIN IMMEDIATE")
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
        for statement in TABLES.split(";"):
            db.execute(statement)
        db.execute("INSERT INTO meta VALUES (?, 0)", (new_id("index"),))
    db.execute("COMMIT")


def _use_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait where another process does the same at the same time; so we do."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _connection(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        _use_wal(db)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
        db.execute("PRAGMA analysis_limit = 1000")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA cache_size = -65536")
        db.execute("PRAGMA mmap_size = 1073741824")
    except BaseException:
        db.close()
        raise
    return db
