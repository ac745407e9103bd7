"""The transcripts of one attempt: they grow as the harness speaks, up to a size."""

from __future__ import annotations

import threading
from pathlib import Path

from swe_sdk.errors import SandboxError
from swe_sdk.rollouts.diary import Diary
from swe_sdk.rollouts.ports import Artifact


class BoundedTranscript:
    """One of them. A write that fails (a full disk) does not disturb who speaks; it is kept in :attr:`error`."""

    def __init__(self, artifact: Artifact, max_bytes: int) -> None:
        self.dropped_bytes = 0
        self.error: SandboxError | OSError | None = None
        self._artifact = artifact
        self._room = max_bytes
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """On this machine."""
        return self._artifact.path

    def write(self, data: bytes) -> None:
        """Append what there is room for."""
        with self._lock:
            kept = data[: self._room] if self.error is None else b""
            self._room -= len(kept)
            self.dropped_bytes += len(data) - len(kept)
            if not kept:
                return
            try:
                self._artifact.write(kept)
            except (SandboxError, OSError) as error:
                self.error = error

    async def aclose(self) -> None:
        """It is complete."""
        try:
            await self._artifact.aclose()
        except (SandboxError, OSError) as error:
            self.error = self.error or error


class Transcripts:
    """All of them, by name."""

    def __init__(self, diary: Diary, max_bytes: int) -> None:
        self._diary = diary
        self._max_bytes = max_bytes
        self._open: dict[str, BoundedTranscript] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> BoundedTranscript:
        """That of a name, made on first use. Raises ``NoSpace``."""
        with self._lock:
            if name not in self._open:
                self._open[name] = BoundedTranscript(self._diary.artifact(name, "transcript"), self._max_bytes)
            return self._open[name]

    @property
    def dropped_bytes(self) -> int:
        """How much was beyond the size, over all of them."""
        return sum(transcript.dropped_bytes for transcript in self._open.values())

    @property
    def error(self) -> SandboxError | OSError | None:
        """The first that could not be written, and why."""
        return next((each.error for each in self._open.values() if each.error is not None), None)

    async def aclose(self) -> None:
        """All are complete."""
        for transcript in self._open.values():
            await transcript.aclose()
