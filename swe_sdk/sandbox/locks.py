"""Locks between tasks, threads and processes of a machine."""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

_POLL_S = 0.05


@asynccontextmanager
async def file_lock(path: Path, *, poll_s: float = _POLL_S) -> AsyncIterator[None]:
    """A lock between tasks and processes, gone with whoever holds it; waiting for it can be cancelled.

    ``poll_s``: how often it is tried, in seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await anyio.sleep(poll_s)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a process forked meanwhile holds a copy, which closing ours would not unlock
        os.close(fd)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, made if need be, against all threads and processes; never across an await."""
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)  # a process forked meanwhile holds a copy, which closing would not unlock
        os.close(fd)


def is_locked(path: Path) -> bool | None:
    """Whether another process or thread holds the exclusive lock on a file; None where there is no such file."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not take each other for the owner
    except BlockingIOError:
        return True
    else:
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False
    finally:
        os.close(fd)
