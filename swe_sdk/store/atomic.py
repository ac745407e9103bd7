"""Lines that are durable once written, and a full disk that says so."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swe_sdk.errors import NoSpace

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def disk_full_is_typed(path: Path) -> Iterator[None]:
    """Turn "no space left", "quota exceeded" and "file too large" into :class:`~swe_sdk.errors.NoSpace`."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise NoSpace(f"cannot write {path}: {error.strerror}", remedy="free space, or choose another disk") from error


def append_line(path: Path, line: bytes, *, mode: int = 0o644) -> None:
    """Append one line, durable when this returns; ``mode`` is that of a new file.

    A line is one ``write`` to a file opened for appending, so several processes may share it. A half-written line that
    a crash left behind is closed first: it cannot spoil the new one. Raises ``NoSpace`` on a full disk.
    """
    with disk_full_is_typed(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            record = b"\n" * _ends_mid_line(descriptor) + line.rstrip(b"\n") + b"\n"
            if os.write(descriptor, record) != len(record):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_directory(path.parent)


def _ends_mid_line(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, as far as its file system can."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems sync no directories
            raise
    finally:
        os.close(descriptor)
