"""Snapshots of a remote system, by our own ids, which are their names there.

Systems give snapshots ids of their own, and take a name twice. So what is there is asked by name before anything is
made: the same id is frozen once, whatever became of the first answer. What cannot be deleted yet, because boxes stand
on it, is noted here as deleted, is not listed any more, and goes as soon as it can.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from swe_sdk.errors import SnapshotBusy, SnapshotNotFound
from swe_sdk.sandbox.contract import Snapshot
from swe_sdk.sandbox.providers.remote.engine import FoundSnapshot
from swe_sdk.sandbox.providers.remote.failures import InUse

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.remote.box import RemoteBox
    from swe_sdk.sandbox.providers.remote.provider import RemoteProvider

HANDLE = "snapshot:"
"""How a lease names a snapshot that is being made."""
_NAME = re.compile(r"snap-[A-Za-z0-9._-]{1,58}")
_HALT_CAP_S = 60.0


class Shelf:
    """The snapshots of one provider."""

    def __init__(self, provider: RemoteProvider) -> None:
        self._provider = provider

    async def snapshots(self) -> list[Snapshot]:
        """Those with a name of ours, oldest first."""
        found = [self._as_ours(one) for one in await self._provider.engine.snapshots() if self._is_there(one)]
        return sorted(found, key=lambda snapshot: (snapshot.created_at, snapshot.id))

    async def find(self, snapshot_id: str) -> FoundSnapshot:
        """What the system has by that name; ``SnapshotNotFound``."""
        found = await self._all(snapshot_id)
        for one in found:
            if self._is_there(one):
                return one
        raise SnapshotNotFound(f"there is no snapshot {snapshot_id!r}")

    async def freeze(self, box: RemoteBox, snapshot_id: str) -> Snapshot:
        """Freeze a box in which nothing runs, or that is paused; one that was frozen by that id before is that one."""
        try:
            return self._kept(await self.find(snapshot_id))
        except SnapshotNotFound:
            pass
        async with box.freezing:
            if not box.is_paused or box.traits.snapshot_while_paused:
                return await self._take(box, snapshot_id)
            # The system freezes what runs only: it goes on for that time, and all of its programs stay stopped.
            await box.unhalt()
            try:
                return await self._take(box, snapshot_id)
            finally:
                with anyio.CancelScope(shield=True, deadline=anyio.current_time() + _HALT_CAP_S):
                    await box.halt()

    async def _take(self, box: RemoteBox, snapshot_id: str) -> Snapshot:
        """Until it is whole it goes with this process; then it outlives it."""
        await _require_quiet(box)
        provider = self._provider
        lease = provider.leases.intend(
            provider.name, settings=provider.settings, remote=True, handle=f"{HANDLE}{snapshot_id}"
        )
        with provider.leases.closing(lease):
            found = await provider.engine.snapshot(box.handle, snapshot_id)
        return self._kept(found)

    def _kept(self, found: FoundSnapshot) -> Snapshot:
        """It is whole, and its maker's: attempts at it that failed before have left leases, by which it would be
        removed."""
        leases = self._provider.leases
        for lease in leases.leases():
            if (lease.provider, lease.handle) == (self._provider.name, f"{HANDLE}{found.name}"):
                leases.keep(lease)
        return self._as_ours(found)

    async def delete(self, snapshot_id: str) -> None:
        """Forget it; unknown ids are ignored."""
        for one in await self._all(snapshot_id):
            self._note(one.id)
            await self._remove(one.id)

    async def collect(self) -> None:
        """Remove what was deleted and is needed no more."""
        for note in self._notes.glob("*"):
            await self._remove(note.name)

    async def _remove(self, found_id: str) -> None:
        try:
            await self._provider.engine.delete_snapshot(found_id)
        except InUse:
            return  # later
        (self._notes / found_id).unlink(missing_ok=True)

    async def _all(self, snapshot_id: str) -> list[FoundSnapshot]:
        return await self._provider.engine.snapshots(snapshot_id) if _NAME.fullmatch(snapshot_id) else []

    @property
    def _notes(self) -> Path:
        return self._provider.state / "deleted"

    def _note(self, found_id: str) -> None:
        self._notes.mkdir(parents=True, exist_ok=True)
        (self._notes / found_id).touch()

    def _is_there(self, found: FoundSnapshot) -> bool:
        return found.is_ready and bool(_NAME.fullmatch(found.name)) and not (self._notes / found.id).exists()

    def _as_ours(self, found: FoundSnapshot) -> Snapshot:
        return Snapshot(id=found.name, provider=self._provider.name, created_at=found.created_at)


async def _require_quiet(box: RemoteBox) -> None:
    """Nothing may write meanwhile: no process that runs, and no call of ours."""
    alive = await box.alive()
    if box.traits.snapshot_scope == "files":
        alive = [process for process in alive if not box.is_paused or process.state not in "TtDZ"]
    if alive:
        names = ", ".join(f"{process.pid} {process.command:.60}" for process in alive[:5])
        remedy = "pause it or stop them" if box.traits.snapshot_scope == "files" else "stop them: a fork runs on"
        raise SnapshotBusy(f"processes are alive in the box: {names}", remedy=remedy)
    if box.is_used and not box.is_paused:  # else it is a command, which stands still
        raise SnapshotBusy("a call to the box is under way", remedy="wait for it")
