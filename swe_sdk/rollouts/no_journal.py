"""Rollouts without a run directory: nothing is kept but what the result holds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from anyio import to_thread

from swe_sdk.model.ids import new_id
from swe_sdk.store.events import ArtifactRole, Event


class ScratchFile:
    """A file of a :class:`NoJournal`, removed when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)

    def write(self, data: bytes) -> None:
        """Append."""
        self._file.write(data)

    async def aclose(self) -> None:
        """Close and remove it."""
        self._file.close()
        await to_thread.run_sync(lambda: self.path.unlink(missing_ok=True))


class NoJournal:
    """An :class:`swe_sdk.rollouts.ports.EventSink` that forgets; its files lie in a temporary folder until it ends."""

    def __init__(self) -> None:
        self._folder: Path | None = None

    def append(self, event: Event, /) -> None:
        """Nothing."""

    async def append_async(self, event: Event, /) -> None:
        """Nothing."""

    def artifact(
        self, name: str, *, rollout_id: str | None = None, attempt: int | None = None, role: ArtifactRole = "log"
    ) -> ScratchFile:
        """A file that lasts until it is closed."""
        self._folder = self._folder or Path(tempfile.mkdtemp(prefix="swe_sdk-rollout-"))
        return ScratchFile(self._folder / new_id("transcript"))

    def save(
        self,
        name: str,
        data: bytes,
        *,
        rollout_id: str | None = None,
        attempt: int | None = None,
        role: ArtifactRole = "other",
    ) -> None:
        """Nothing."""

    def close(self) -> None:
        """Remove the temporary folder."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
