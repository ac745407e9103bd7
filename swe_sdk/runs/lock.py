"""A run is carried out by one process at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swe_sdk.errors import InputError
from swe_sdk.store.atomic import disk_full_is_typed

LOCK_FILE = "run.lock"
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


@contextmanager
def held_run(run_dir: Path) -> Iterator[None]:
    """Hold a run; the lock goes with its holder, however that ends.

    ``InputError`` where another one holds it, or nothing can be written there.

    A file system that has no locks lets everybody in: then only the journals tell whether somebody is at work.
    """
    fd = _opened(run_dir)
    try:
        _lock(fd, run_dir)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a process forked meanwhile holds a copy, which closing ours would not unlock
        os.close(fd)


def _opened(run_dir: Path) -> int:
    try:
        with disk_full_is_typed(run_dir):
            return os.open(run_dir / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        remedy = "make it writable, or go on with a copy of it"
        raise InputError(f"nothing can be written to the run {run_dir}: {error.strerror}", remedy=remedy) from error


def _lock(fd: int, run_dir: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"the run {run_dir} is under way in another process", remedy="stop that one first") from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
