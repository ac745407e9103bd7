"""The file of an index: SQLite, on a local disk, and of no value by itself."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from swe_sdk.model.ids import new_id
from swe_sdk.store.schema import LAST_INDEX, TABLES, index_statements

_WAIT_S = 60.0
_BROKEN = ("malformed", "not a database", "disk image", "corrupt")
_LAST_INDEX = "SELECT 1 FROM sqlite_master WHERE name = ?"
Parameters = Sequence[object] | dict[str, object]


class Database:
    """Two connections, each used by one thread at a time: readers do not wait for the writer.

    Another process may have the same file open; one of them writes at a time. A file that is damaged is replaced by an
    empty one, to be filled again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._has_indexes = False
        self._write_lock, self._read_lock = threading.RLock(), threading.RLock()
        self._writer, self._reader = self._open()

    def rows(self, sql: str, parameters: Parameters = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        with self._read_lock:
            return self._reader.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Parameters = ()) -> sqlite3.Row | None:
        """The first row of a query."""
        with self._read_lock:
            found: sqlite3.Row | None = self._reader.execute(sql, parameters).fetchone()
            return found

    def value(self, sql: str, parameters: Parameters = ()) -> object:
        """The first column of the first row."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All queries within see the same state, whatever is written meanwhile."""
        with self._read_lock:
            self._reader.execute("BEGIN")
            try:
                yield
            finally:
                self._reader.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction; no other process writes meanwhile. All of it is there afterwards, or nothing."""
        with self._write_lock:
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
            except BaseException:
                self._writer.execute("ROLLBACK")
                raise
            self._writer.execute("COMMIT")

    @property
    def generation(self) -> str:
        """Another one for each time that the index was made anew, or a run was taken out of it."""
        return str(self.value("SELECT generation FROM meta"))

    def build_indexes(self) -> None:
        """What makes queries fast; left out while an empty index is filled, which is faster without."""
        with self.writing() as db:
            for statement in index_statements():
                db.execute(statement)
            db.execute("ANALYZE")

    @property
    def has_indexes(self) -> bool:
        """Whether they are there."""
        self._has_indexes = self._has_indexes or self.value(_LAST_INDEX, (LAST_INDEX,)) is not None
        return self._has_indexes

    def close(self) -> None:
        """Close both connections. A second call does nothing."""
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._reader.close()

    def _open(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if not any(word in str(error) for word in _BROKEN):
                raise
            for suffix in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    self.path.with_name(self.path.name + suffix).unlink()
            return self._connect()

    def _connect(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        writer = _connection(self.path)
        try:
            self._writer = writer
            self._create_tables()
            return writer, _connection(self.path)
        except BaseException:
            writer.close()
            raise

    def _create_tables(self) -> None:
        with self.writing() as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is None:
                for statement in TABLES.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO meta VALUES (?, 0)", (new_id("index"),))


def _connection(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA cache_size = -65536")
        db.execute("PRAGMA mmap_size = 1073741824")
    except BaseException:
        db.close()
        raise
    return db
