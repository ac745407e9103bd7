"""Files of a run that are written bit by bit, and compressed when they are closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from anyio import to_thread

from swe_sdk.store.atomic import disk_full_is_typed
from swe_sdk.store.events import ArtifactWritten
from swe_sdk.store.frames import compress_file

COMPRESS_FROM_BYTES = 1 << 20
"""Closed artifacts of this size and more are compressed."""


class ArtifactFile:
    """An artifact that is being written: bytes are appended as they come, and readers see them at once.

    Any thread may write. ``close`` compresses what is large (a second for each 100 MB or so: from an event loop, await
    :meth:`aclose`) and records the file in the journal. Bytes are never held in memory.
    """

    def __init__(self, path: Path, record: ArtifactWritten, announce: Callable[[ArtifactWritten], None]) -> None:
        self.path = path
        self._record, self._announce = record, announce
        self._lock = threading.Lock()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with disk_full_is_typed(path):
            self._fd = os.open(path, flags, 0o644)

    def write(self, data: bytes) -> None:
        """Append all of ``data``; ``NoSpace`` where it does not fit, and what did fit stays."""
        with self._lock, disk_full_is_typed(self.path):
            if self._fd < 0:
                raise ValueError(f"the artifact {self.path.name} is closed")
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def fileno(self) -> int:
        """The descriptor, for a program whose output goes straight there."""
        return self._fd

    def close(self) -> ArtifactWritten:
        """No more is coming. Returns where the artifact lies; a second call does nothing more."""
        with self._lock:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
            self._record = finished(self.path, self._record)
            self._announce(self._record)
        return self._record

    async def aclose(self) -> ArtifactWritten:
        """The same, in a worker thread."""
        return await to_thread.run_sync(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def finished(path: Path, record: ArtifactWritten) -> ArtifactWritten:
    """The record of a file that nobody writes any more, compressed where it is large."""
    size = path.stat().st_size
    stored = compress_file(path) if size >= COMPRESS_FROM_BYTES else path
    return record.model_copy(
        update={
            "size_bytes": size,
            "stored_bytes": stored.stat().st_size,
            "encoding": "identity" if stored == path else "gzip",
            "is_open": False,
        }
    )
