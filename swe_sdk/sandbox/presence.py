"""A process's own directory in a lease book, and the signs of life that it gives there.

The lock on ``alive`` says most: it is held exactly as long as the process lives, and can be seen from other pid
namespaces of the machine as well, where a pid means nothing. Across machines it is believed where it is held; where it
is not, the time of the last sign of life decides, because not every network file system passes locks on.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from swe_sdk.sandbox.locks import is_locked, locked
from swe_sdk.sandbox.owner import current_owner

RENEW_EVERY_S = 60.0
_ALIVE = "alive"
_CLAIM = "claim"
LOCK = "lock"
"""Of the whole book; held for a moment while a record or a directory changes."""


class Presence:
    """This process in one book. Its files are removed at the exit, unless leases are left."""

    def __init__(self, book: Path) -> None:
        self._book = book
        self.path = book / current_owner().key
        with locked(book / LOCK):  # who tidies up must not find the file before it is locked
            self.path.mkdir(mode=0o700, exist_ok=True)
            self._fd = os.open(self.path / _ALIVE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)

    @property
    def is_there(self) -> bool:
        """False where somebody has deleted the directory."""
        return os.fstat(self._fd).st_nlink > 0

    def renew(self) -> None:
        """Give a sign of life."""
        os.utime(self._fd)

    def leave(self) -> None:
        """Remove the directory, unless leases are in it: they may still be closed, so the lock is held to the end."""
        with suppress(OSError), locked(self._book / LOCK):
            if not any(self.path.glob("*.json")):
                remove(self.path)
                os.close(self._fd)

    def forget(self) -> None:
        """In a forked child, which holds a copy of the lock: unlocking it would unlock the parent's."""
        os.close(self._fd)


def presence_in(book: Path) -> Presence:
    """This process in that book, there from now on and until it ends."""
    with _guard:
        presence = _presences.get(book)
        if presence is None or not presence.is_there:
            if presence is not None:
                presence.forget()
            book.mkdir(parents=True, exist_ok=True, mode=0o700)
            presence = _presences[book] = Presence(book)
            _start_heart()
        return presence


def renew(book: Path | None = None) -> None:
    """A sign of life of this process, in one book or in all."""
    with _guard:
        for presence in [p for path, p in _presences.items() if book in (None, path)]:
            with suppress(OSError):  # its disk may be gone; the next time it may be back
                presence.renew()


def holds_lock(directory: Path) -> bool | None:
    """Whether the owner of a directory holds its lock; None where it has none."""
    return is_locked(directory / _ALIVE)


def last_sign(directory: Path) -> float:
    """When the owner of a directory gave its last sign of life; 0.0 where there is none. Unix seconds."""
    try:
        return (directory / _ALIVE).stat().st_mtime
    except OSError:
        return 0.0


def time_of(book: Path) -> float:
    """Now, by the clock that signs of life are stamped with: a file server's, which may differ from this machine's."""
    with locked(book / LOCK):
        os.utime(book / LOCK)
        return (book / LOCK).stat().st_mtime


@contextmanager
def claimed(directory: Path) -> Iterator[bool]:
    """Be the one that cleans up after an owner; False where another is, or has done it already."""
    try:
        fd = os.open(directory / _CLAIM, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _try_lock(fd)
    finally:
        _release(fd)


def _release(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)  # a process forked meanwhile holds a copy, which closing would not unlock
    os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove(directory: Path) -> None:
    """Remove the directory of an owner that is gone, with half-written records; call it under the book's lock."""
    for path in (*directory.glob(".*"), *directory.glob("*.json"), directory / _CLAIM, directory / _ALIVE):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # a file that is not ours, or the claim of another reaper
        directory.rmdir()


_presences: dict[Path, Presence] = {}
_guard = threading.Lock()
_heart: threading.Thread | None = None


def _start_heart() -> None:
    global _heart
    if _heart is None:
        _heart = threading.Thread(target=_beat, name="swe_sdk leases", daemon=True)
        _heart.start()


def _beat() -> None:
    while True:
        time.sleep(RENEW_EVERY_S)
        renew()


@atexit.register
def _at_exit() -> None:
    with _guard:
        for presence in _presences.values():
            presence.leave()
        _presences.clear()


def _after_fork() -> None:
    global _guard, _heart
    _guard, _heart = threading.Lock(), None
    for presence in _presences.values():
        presence.forget()
    _presences.clear()


os.register_at_fork(after_in_child=_after_fork)
