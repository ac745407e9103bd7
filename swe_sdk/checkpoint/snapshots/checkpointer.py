"""The sandboxes of sessions: frozen for a checkpoint, forked from it, and released by reference."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from pydantic import ValidationError

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.hooks import ResourcesHooks
from swe_sdk.checkpoint.messages import Mode
from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.errors import CapabilityMissing, SandboxError, SnapshotBusy, SnapshotNotFound
from swe_sdk.model.ids import new_id
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Box, SandboxProvider, SandboxSpec, Snapshot, SupportsPause, SupportsSnapshots
from swe_sdk.sandbox.node import node_of_snapshots

K = TypeVar("K")
_CLOSE_S = 120.0


class SandboxState(Record):
    """What a checkpoint holds of a session's sandbox."""

    provider_name: str
    descriptor: dict[str, str]
    """Which box it was; for people."""
    snapshot_id: str
    node: str = ""
    """Which machine and cache folder has the snapshot (:mod:`swe_sdk.sandbox.node`); empty = whoever reaches the
    provider, or not known: an older record."""
    spec: SandboxSpec
    """As it was made; a fork stands on the snapshot instead of the image."""
    snapshot_at: float
    """Unix seconds."""


@dataclass
class _Held:
    box: Box
    is_lent: bool
    generation: int = 0
    """Counts the times at which it may have begun to change since it was frozen."""
    captured: tuple[int, SandboxState] | None = None
    """Its last snapshot, and of which generation."""


class SandboxCheckpointer(ResourcesHooks):
    """Holds a sandbox for each session. Give it to a :class:`..participants.resources.ResourcesParticipant` as hooks.

    ``state_dir`` (absolute, per server and run) has the index of snapshots. ``parallelism`` bounds how many sandboxes
    are frozen, forked or deleted at once.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        *,
        state_dir: Path,
        parallelism: int = 16,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.provider = provider
        self.node = node_of_snapshots(provider)
        """Who has the snapshots that are made here."""
        self.index = SnapshotIndex(state_dir)
        self._limiter = anyio.CapacityLimiter(parallelism)
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._superseded: list[Box] = []
        self.failed: dict[str, Exception] = {}
        """Sessions whose sandboxes could not be frozen when that was tried last, and why."""

    def checkpoint_mode_in_effect(self) -> Mode:
        """``restart_only`` where the provider cannot snapshot, so that nothing is lost unseen."""
        return "exported" if "snapshots" in self.provider.capabilities else "restart_only"

    # -- sandboxes --------------------------------------------------------------------------------------------------

    def add(self, session_id: str, box: Box, *, is_lent: bool = True) -> None:
        """Take over a session's sandbox. One that is not lent changes only by way of :meth:`touch`."""
        if session_id in self._held:
            raise refuse("checkpoint_conflict", f"session {session_id} has a sandbox")
        self._held[session_id] = _Held(box, is_lent)

    def get(self, session_id: str) -> Box:
        """The sandbox of a session; ``KeyError`` where it has none."""
        return self._held[session_id].box

    @property
    def sessions(self) -> tuple[str, ...]:
        """Which have one."""
        return tuple(self._held)

    def touch(self, session_id: str) -> None:
        """It may have changed since it was frozen."""
        self._held[session_id].generation += 1

    def drop(self, session_id: str) -> None:
        """It is not ours any more: whoever has lent the sandbox closes it."""
        self._held.pop(session_id, None)

    async def stop(self, session_id: str) -> None:
        """Close the sandbox of a session. Its snapshots stay: kept checkpoints may need them. A failure keeps it."""
        held = self._held.get(session_id)
        if held is not None:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await held.box.close()
                self._held.pop(session_id, None)

    async def aclose(self) -> None:
        """Close all sandboxes."""
        await self._each(list(self._held), self.stop)
        await self.settle()

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def capture_once(self, session_ids: Iterable[str], *, checkpoint_id: str) -> dict[str, SandboxState]:
        """Freeze these sandboxes for a checkpoint, all or an error; what has not changed since is not frozen again.

        Ids are written down before their snapshots exist, so that a crash loses none.
        """
        self.failed = {}
        held = {session: self._held[session] for session in session_ids if session in self._held}
        known = await to_thread.run_sync(self.index.entries)
        states = {session: state for session, one in held.items() if (state := _unchanged(one, known)) is not None}
        if states:
            reused = {session: state.snapshot_id for session, state in states.items()}
            await to_thread.run_sync(self.index.refer, checkpoint_id, self.provider.name, reused)
        fresh = {session: new_id("snap") for session in held if session not in states}
        await to_thread.run_sync(self.index.intend, checkpoint_id, self.provider.name, fresh)

        async def capture(session: str) -> None:
            try:
                states[session] = await self._capture(held[session], fresh[session])
            except Exception as error:
                self.failed[session] = error
                raise

        await self._each(list(fresh), capture)
        await to_thread.run_sync(self.index.taken, list(fresh.values()))
        return states

    async def _capture(self, held: _Held, snapshot_id: str) -> SandboxState:
        snapshot = await _freeze(self._snapshots(), held.box, snapshot_id)
        state = SandboxState(
            provider_name=self.provider.name,
            descriptor={"box_id": held.box.id},
            snapshot_id=snapshot.id,
            node=self.node,
            spec=held.box.spec,
            snapshot_at=snapshot.created_at,
        )
        held.captured = (held.generation, state)
        return state

    async def restore(self, states: Mapping[str, SandboxState]) -> None:
        """Fork a sandbox for each session: all, or none and an error. All are looked at before the first is made.

        Raises ``SnapshotNotFound`` where a snapshot is gone, ``CheckpointError`` for states of another provider.
        """
        known = {snapshot.id for snapshot in await self._snapshots().snapshots()}
        for session, state in states.items():
            if state.provider_name != self.provider.name:
                raise refuse("invalid_checkpoint_state", f"{session} was saved with provider {state.provider_name}")
            if state.node not in ("", self.node):
                raise refuse("invalid_checkpoint_state", f"{session}: its snapshot lies on the node {state.node}")
            if state.snapshot_id not in known:
                raise SnapshotNotFound(f"session {session} needs snapshot {state.snapshot_id}, which is gone")
        boxes: dict[str, Box] = {}

        async def fork(session: str) -> None:
            spec = states[session].spec.model_copy(update={"image": None, "snapshot": states[session].snapshot_id})
            boxes[session] = await self.provider.create(spec)

        try:
            await self._each(list(states), fork)
        except BaseException:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._each(list(boxes), lambda session: boxes[session].close())
            raise
        for session, box in boxes.items():
            self._take_over(session, box, states[session])

    def _take_over(self, session: str, box: Box, state: SandboxState) -> None:
        before = self._held.get(session)
        if before is not None:
            self._superseded.append(before.box)
        self._held[session] = _Held(box, is_lent=True, captured=(0, state))

    async def release(self, kept: frozenset[str]) -> int:
        """Delete the snapshots that no kept checkpoint refers to; cancelled and repeated, it goes on where it was.

        Those that another process deletes at the same time are counted once.
        """
        ids = await to_thread.run_sync(self.index.unneeded, kept, self.provider.name)
        deleted: list[str] = []

        async def delete(snapshot_id: str) -> None:
            await self._snapshots().delete_snapshot(snapshot_id)
            deleted.append(snapshot_id)

        try:
            await self._each(ids, delete)
        finally:
            with anyio.CancelScope(shield=True):
                forgotten = await to_thread.run_sync(self.index.forget, deleted)
        return forgotten

    def _snapshots(self) -> SupportsSnapshots:
        if "snapshots" in self.provider.capabilities and isinstance(self.provider, SupportsSnapshots):
            return self.provider
        raise CapabilityMissing(f"provider {self.provider.name} cannot snapshot", remedy="its episodes start over")

    async def _each(self, items: Iterable[K], action: Callable[[K], Coroutine[Any, Any, None]]) -> None:
        """Do it for all, within the bound; the first error ends the others."""

        async def one(item: K) -> None:
            async with self._limiter:
                await action(item)

        try:
            async with anyio.create_task_group() as tasks:
                for item in items:
                    tasks.start_soon(one, item)
        except BaseExceptionGroup as group:
            raise _first(group) from group

    # -- hooks ------------------------------------------------------------------------------------------------------

    async def export_session_states(self, ids: Iterable[str], *, checkpoint_id: str) -> Mapping[str, Any]:
        """Sessions without a sandbox have nothing to save."""
        states = await self.capture_once(ids, checkpoint_id=checkpoint_id)
        return {session: states[session].model_dump(mode="json") if session in states else None for session in ids}

    async def restore_session_states(self, states: Mapping[str, Any]) -> None:
        """See :meth:`restore`."""
        try:
            wanted = {name: SandboxState.model_validate(state) for name, state in states.items() if state is not None}
        except ValidationError as error:
            raise refuse("invalid_checkpoint_state", str(error)) from error
        await self.restore(wanted)

    async def retire_session_state(self, session_id: str) -> None:
        """See :meth:`stop`."""
        await self.stop(session_id)

    async def close_session_state(self, session_id: str) -> None:
        """See :meth:`stop`."""
        await self.stop(session_id)

    def admission_opened(self) -> None:
        """Whoever has been lent a sandbox may change it from now on."""
        for held in self._held.values():
            held.generation += held.is_lent

    async def settle(self) -> None:
        """Close what a restore has replaced."""
        while self._superseded:
            await self._superseded[-1].close()
            self._superseded.pop()

    async def release_external_state(self, kept: frozenset[str]) -> int:
        """See :meth:`release`."""
        return await self.release(kept)


async def _freeze(provider: SupportsSnapshots, box: Box, snapshot_id: str) -> Snapshot:
    """A snapshot; a box in which something runs is paused for it."""
    try:
        return await provider.snapshot(box, snapshot_id=snapshot_id)
    except SnapshotBusy:
        if not isinstance(box, SupportsPause) or await box.status() == "paused":
            raise
    await box.pause()
    try:
        return await provider.snapshot(box, snapshot_id=snapshot_id)
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await box.resume()


def _unchanged(held: _Held, known: Mapping[str, object]) -> SandboxState | None:
    """The last snapshot, if it is still there and nothing can have changed since."""
    if held.captured is None or held.captured[0] != held.generation or held.captured[1].snapshot_id not in known:
        return None
    return held.captured[1]


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to report: one of ours if there is one, and no cancellation where there is anything else."""
    leaves = list(_leaves(group))
    return next((one for one in leaves if isinstance(one, SandboxError)), leaves[0])


def _leaves(error: BaseException) -> Iterable[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
