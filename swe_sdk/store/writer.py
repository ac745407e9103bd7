"""Writing a run: events into a journal, artifacts as files."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType
from typing import Self

from anyio import to_thread

from swe_sdk.errors import InputError, NoSpace
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import safe_name
from swe_sdk.sandbox.owner import current_owner
from swe_sdk.store.artifacts import ArtifactFile, finished
from swe_sdk.store.atomic import disk_full_is_typed
from swe_sdk.store.events import ArtifactRole, ArtifactWritten, Event, WriterClosed, WriterOpened
from swe_sdk.store.filesystem import FileSystem, file_system
from swe_sdk.store.journal import Journal
from swe_sdk.store.layout import artifact_folder, events_folder, make_run

_log = logging.getLogger(__name__)


class RunWriter:
    """The one way to write a run directory: one for each process, used by any of its threads. A context manager.

    Any number of processes, on any number of machines, may write the same run, each through a RunWriter of its own.
    Nobody waits for anybody: each has a journal of its own, and readers never lock one.

    The run directory is made where it is missing. Raises ``InputError`` where there can be none, ``NoSpace`` on a full
    disk: then and later nothing half-written is left in the journal. With ``sync=False`` nothing is synced to the disk,
    which is for tests and for runs that may be lost with the machine.
    """

    def __init__(self, run_dir: Path | str, *, sync: bool = True) -> None:
        self.path = Path(run_dir).absolute()
        self._sync = sync
        make_run(self.path)
        self._journal = Journal(events_folder(self.path))
        self.append(WriterOpened(owner=current_owner()))

    def __repr__(self) -> str:
        return f"RunWriter({str(self.path)!r})"

    @property
    def journal_path(self) -> Path:
        """The journal of this writer."""
        return self._journal.path

    @property
    def file_system(self) -> FileSystem:
        """What the run directory is on, and what can be counted on there (``.promise``)."""
        return file_system(self.path)

    # -- events ------------------------------------------------------------------------------------------------------

    def append(self, event: Event, *, at: float | None = None) -> None:
        """Write an event: others see it when this returns, and it is on the disk if it is a ``durable`` one.

        Takes ten microseconds, a durable event as long as the disk needs (from an event loop, await
        :meth:`append_async`). ``at`` = Unix seconds, for an event of another time than now. Raises ``NoSpace``.
        """
        size = self._journal.append(event, at)
        if event.durable and self._sync:
            self._journal.sync(size)

    async def append_async(self, event: Event, *, at: float | None = None) -> None:
        """The same, and waits for the disk in a worker thread; events that wait at the same time share one sync."""
        size = self._journal.append(event, at)
        if event.durable and self._sync:
            await to_thread.run_sync(self._journal.sync, size)

    async def sync_async(self) -> None:
        """All that was appended before is on the disk when this returns, durable or not."""
        if self._sync:
            await to_thread.run_sync(self._journal.sync, self._journal.size)

    # -- artifacts ---------------------------------------------------------------------------------------------------

    def artifact(
        self, name: str, *, rollout_id: str | None = None, attempt: int | None = None, role: ArtifactRole = "log"
    ) -> ArtifactFile:
        """A new file of an attempt (or of the run) to append bytes to; ``InputError`` where there is one of that name.

        It is in the journal from the start, so that it can be watched while it grows.
        """
        path = self._new_path(name, rollout_id, attempt)
        record = self._record(path, name, rollout_id, attempt, role).model_copy(update={"is_open": True})
        file = ArtifactFile(path, record, self.append)
        self.append(record)
        return file

    def save(
        self,
        name: str,
        data: bytes,
        *,
        rollout_id: str | None = None,
        attempt: int | None = None,
        role: ArtifactRole = "other",
        private: bool = False,
    ) -> ArtifactWritten:
        """Write a whole file of an attempt (or of the run); it is there with all of its bytes, or not at all.

        One that is ``private`` can be read by this user alone, from the start.
        """
        path = self._new_path(name, rollout_id, attempt)
        with disk_full_is_typed(path):
            write_atomic(path, data, mode=0o600 if private else 0o644, sync=self._sync)
        return self.adopt(path, name=name, rollout_id=rollout_id, attempt=attempt, role=role)

    def adopt(
        self,
        path: Path,
        *,
        name: str = "",
        rollout_id: str | None = None,
        attempt: int | None = None,
        role: ArtifactRole = "other",
    ) -> ArtifactWritten:
        """Record a file that somebody else has written below the run directory, and compress it where it is large."""
        record = finished(path, self._record(path, name or path.name, rollout_id, attempt, role))
        self.append(record)
        return record

    def folder(self, rollout_id: str | None = None, attempt: int | None = None) -> Path:
        """The folder of an attempt's files (or of the run's), made where it is missing."""
        folder = artifact_folder(self.path, rollout_id, attempt)
        with disk_full_is_typed(folder):
            folder.mkdir(parents=True, exist_ok=True)
        return folder

    def close(self) -> None:
        """Close the journal, durable. A second call does nothing."""
        if self._journal.closed:
            return
        try:
            self._journal.append(WriterClosed())
        except NoSpace:
            _log.warning("the disk is full: %s ends without its last line", self._journal.path)
        finally:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _new_path(self, name: str, rollout_id: str | None, attempt: int | None) -> Path:
        path = self.folder(rollout_id, attempt) / safe_name(name)
        if path.exists():
            raise InputError(f"there is an artifact {name!r} of {rollout_id or 'the run'} already: {path}")
        return path

    def _record(
        self, path: Path, name: str, rollout_id: str | None, attempt: int | None, role: ArtifactRole
    ) -> ArtifactWritten:
        relative = str(path.relative_to(self.path))
        return ArtifactWritten(rollout_id=rollout_id, attempt=attempt, name=name, role=role, path=relative)
