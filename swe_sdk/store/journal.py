"""A journal: the file to which one process appends its events."""

from __future__ import annotations

import errno
import os
import platform
import threading
import time
from pathlib import Path

from swe_sdk.model.ids import safe_name
from swe_sdk.store.atomic import disk_full_is_typed, sync_directory
from swe_sdk.store.events import Event
from swe_sdk.store.lines import decode_line, encode_line

_LEAST_STEP_S = 1e-6
_TAIL_BYTES = 1 << 20
_OPEN: set[str] = set()
"""Journals that this process has open."""


class Journal:
    """Appends lines to a new file of its own. Any thread may; a forked child may not.

    A line is one ``write`` at the end of a file that nobody else writes, so readers see whole lines and, after a kill
    in the middle of it, at most one torn line at the end. What does not fit on a full disk is taken back.
    """

    def __init__(self, folder: Path) -> None:
        name = f"{safe_name(platform.node() or 'host')}-{os.getpid()}-{time.time_ns():x}.jsonl"
        self.path = folder / name
        self._pid = os.getpid()
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._n = self._size = self._synced = 0
        self._t = max((_last_time(path) for path in folder.glob("*.jsonl") if path.is_file()), default=0.0)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with disk_full_is_typed(self.path):
            self._fd = os.open(self.path, flags, 0o644)
            _OPEN.add(name)
            sync_directory(folder)

    @property
    def closed(self) -> bool:
        """Whether nothing may be appended any more."""
        return self._fd < 0

    @property
    def size(self) -> int:
        """Of the file, in bytes: what was appended so far."""
        return self._size

    def append(self, event: Event, at: float | None = None) -> int:
        """Write one line; returns the size of the file with it, for :meth:`sync`.

        ``at`` = Unix seconds, for what happened at another time than now. Raises ``NoSpace``, and then nothing of the
        line is there.
        """
        if os.getpid() != self._pid:
            raise RuntimeError("a forked process has to open a RunWriter of its own")
        with self._writing, disk_full_is_typed(self.path):
            line = encode_line(self._n + 1, self._now() if at is None else at, event)
            self._write(line)
            self._n, self._size = self._n + 1, self._size + len(line)
            return self._size

    def sync(self, size: int) -> None:
        """Make the first ``size`` bytes durable. Threads that wait at the same time share one sync."""
        with self._syncing, disk_full_is_typed(self.path):
            if self._synced < size and self._fd >= 0:
                reached = self._size
                os.fdatasync(self._fd)
                self._synced = reached

    def close(self) -> None:
        """Close the file, durable. Nothing may be appended afterwards."""
        with self._syncing, self._writing:
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                _OPEN.discard(self.path.name)
                try:
                    with disk_full_is_typed(self.path):
                        os.fsync(fd)
                finally:
                    os.close(fd)

    def _now(self) -> float:
        """Never twice the same, and never backwards when somebody sets the clock: the newest event is the last one."""
        self._t = round(max(time.time(), self._t + _LEAST_STEP_S), 6)
        return self._t

    def _write(self, line: bytes) -> None:
        if self._fd < 0:
            raise ValueError(f"the journal {self.path.name} is closed")
        try:
            if os.write(self._fd, line) == len(line):
                return
        except OSError:
            self._take_back()
            raise
        self._take_back()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _take_back(self) -> None:
        os.ftruncate(self._fd, self._size)


def is_open_here(name: str) -> bool:
    """Whether this process writes the journal of that name."""
    return name in _OPEN


def _last_time(path: Path) -> float:
    """That of the last event in a journal; 0.0 where it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            *_, last, _torn = [b"", *file.read().split(b"\n")]
        return decode_line(last).t
    except (OSError, ValueError):
        return 0.0
