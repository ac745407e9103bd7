"""The rollouts of a run and their sandboxes, as participants of the checkpoint protocol.

The participants of :mod:`swe_sdk.checkpoint.participants` own their episodes and sessions. Here the engine does: it has
the boundaries, the clocks and the sandboxes already, and one bookmark holds where a rollout stands together with the
state of its agent. So these two only look at the engine's rollouts; protocol, records and files are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import anyio
from anyio import to_thread
from pydantic import ValidationError

from swe_sdk.checkpoint.call_gate import CallView, ModelGate
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.records import EpisodeRecord, ResourcesSessionRecord
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxCheckpointer, SandboxState
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.runs.checkpoints.census import Census, Standing
from swe_sdk.sandbox.contract import SandboxProvider, SupportsSnapshots
from swe_sdk.sandbox.node import node_of_snapshots
from swe_sdk.store.checkpoints import SANDBOXES
from swe_sdk.store.events import CheckpointRollout, SnapshotReferenced, SnapshotReleased, SnapshotTaken
from swe_sdk.store.writer import RunWriter

ROLLOUTS, MODEL = "rollouts", "model"
_POLL_S = 0.02


class RolloutsParticipant(BaseParticipant[EpisodeRecord]):
    """Where each rollout stands. ``digest`` gives that of a rollout's task, None for a rollout that is not ours."""

    kind: ClassVar[Kind] = "environment"
    record_type = EpisodeRecord
    poll_s = _POLL_S  # a rollout does not tell that it has parked

    def __init__(
        self, census: Census, digest: Callable[[str], str | None], journal: RunWriter, **settings: Any
    ) -> None:
        super().__init__(ROLLOUTS, **settings)
        self.last_checkpoint = ""
        """The id of the one that was begun last."""
        self.written: dict[str, Bookmark] = {}
        """What was written last, by rollout."""
        self._census, self._digest, self._journal = census, digest, journal

    def _on_close(self) -> None:
        self.last_checkpoint = self.control.checkpoint_id or ""
        self._census.close()

    def _on_open(self) -> None:
        self._census.open()

    def _report(self) -> PrepareReport:
        found = self._census.standings()
        states = [one.state for one in found]
        return PrepareReport.of(
            [
                f"{one.episode_id} is at work in {one.live.stage}"
                for one in found
                if one.state == "running" and one.live
            ],
            counts={state: states.count(state) for state in sorted(set(states))},
            restarts=tuple(one.episode_id for one in found if one.state == "restart"),
            episodes=tuple(one.episode_id for one in found if one.state == "held"),
        )

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[EpisodeRecord]:
        """While they stand, so that the journal has what they did before the cut above it, and the rest below. It is on
        the disk before the manifest: nobody goes on from a checkpoint whose steps went with the machine."""
        found = self._census.standings()
        for one in found:
            if one.state == "restart" or _in_scope(one, scope):
                self._journal.append(_told(checkpoint_id, one))
        await self._journal.sync_async()
        marks = [one.bookmark for one in found if _in_scope(one, scope)]
        self.written = {mark.rollout_id: mark for mark in marks if mark is not None}
        return [self._record(mark) for mark in self.written.values()]

    def _record(self, bookmark: Bookmark) -> EpisodeRecord:
        return EpisodeRecord(
            episode_id=EpisodeId(rollout_id=bookmark.rollout_id, attempt=bookmark.attempt),
            task_digest=self._digest(bookmark.rollout_id) or "",
            boundary=bookmark.model_dump(mode="json"),
            budget_spent_s=bookmark.budget.spent_s,
        )

    async def _install(self, records: Sequence[EpisodeRecord], checkpoint_id: str) -> None:
        if len(self._census.lives):
            raise refuse("checkpoint_conflict", "rollouts are under way")
        ours = [record for record in records if self._digest(record.episode_id.rollout_id) is not None]
        self._census.remember({one.episode_id.rollout_id: self._bookmark(one, checkpoint_id) for one in ours})

    def _bookmark(self, record: EpisodeRecord, checkpoint_id: str) -> Bookmark:
        name = record.episode_id.rollout_id
        if record.task_digest != self._digest(name):
            raise refuse("invalid_checkpoint_state", f"{name} was saved with another task")
        try:
            bookmark = Bookmark.model_validate(record.boundary)
        except ValidationError as error:
            raise refuse("invalid_checkpoint_state", f"the bookmark of {name}: {error}") from error
        budget = bookmark.budget.model_copy(update={"spent_s": record.budget_spent_s})
        return bookmark.model_copy(update={"budget": budget, "checkpoint_id": checkpoint_id})

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        """Rollouts end with the run; what is saved of them is dropped."""
        for episode in episodes:
            self._census.saved.pop(episode.rollout_id, None)


class SandboxesParticipant(BaseParticipant[ResourcesSessionRecord]):
    """The sandboxes of the agents: frozen where their rollouts stand, and forked by the engine when those go on."""

    kind: ClassVar[Kind] = "resources"
    record_type = ResourcesSessionRecord

    def __init__(self, census: Census, boxes: SandboxCheckpointer, journal: RunWriter, **settings: Any) -> None:
        super().__init__(SANDBOXES, **settings)
        self.saved: dict[str, SandboxState] = {}
        """What the newest checkpoint holds, by rollout; see :attr:`.census.Census.saved`."""
        self.written: dict[str, SandboxState] = {}
        """What was written last."""
        self._census, self._boxes, self._journal = census, boxes, journal
        self._frozen: dict[str, Bookmark] = {}
        """Where each rollout stood when its sandbox was frozen last."""
        self._told: set[str] = set()
        """Snapshots that the journal knows of."""

    def _report(self) -> PrepareReport:
        """Never holds anything up: the rollouts have parked before, and have told the restarts."""
        return PrepareReport.of([], counts={"sessions": sum(one.needs_box for one in self._census.standings())})

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[ResourcesSessionRecord]:
        chosen = [one for one in self._census.standings() if one.needs_box and _in_scope(one, scope)]
        alive = {one.episode_id.rollout_id: one for one in chosen if one.live is not None}
        self._lend(alive)
        started = time.monotonic()
        try:
            states = await self._boxes.capture_once(alive, checkpoint_id=checkpoint_id)
        finally:
            self._census.could_not_freeze(self._boxes.failed)
        seconds = time.monotonic() - started
        earlier = [one.episode_id.rollout_id for one in chosen if one.live is None]
        states.update({name: self.saved[name] for name in earlier})
        shared = {name: states[name].snapshot_id for name in earlier}
        await to_thread.run_sync(self._boxes.index.refer, checkpoint_id, self._boxes.provider.name, shared)
        for standing in chosen:
            self._tell(checkpoint_id, standing, states[standing.episode_id.rollout_id], seconds)
        self.written = states
        return [
            ResourcesSessionRecord(
                episode_id=one.episode_id,
                session_id=one.episode_id.rollout_id,
                state=states[one.episode_id.rollout_id].model_dump(mode="json"),
            )
            for one in chosen
        ]

    def _lend(self, alive: Mapping[str, Standing]) -> None:
        """Hand the sandboxes over; one that stands where it was frozen last need not be frozen again."""
        for name in set(self._boxes.sessions) - alive.keys():
            self._boxes.drop(name)
        for name, standing in alive.items():
            box, mark = standing.live.box if standing.live else None, standing.mark
            assert box is not None
            assert mark is not None
            if name in self._boxes.sessions and self._boxes.get(name) is not box:
                self._boxes.drop(name)
            if name not in self._boxes.sessions:
                self._boxes.add(name, box, is_lent=False)
            elif self._frozen.get(name) is not mark:
                self._boxes.touch(name)
            self._frozen[name] = mark

    def _tell(self, checkpoint_id: str, standing: Standing, state: SandboxState, seconds: float) -> None:
        name = standing.episode_id.rollout_id
        self._journal.append(
            SnapshotReferenced(checkpoint_id=checkpoint_id, snapshot_id=state.snapshot_id, rollout_id=name)
        )
        if standing.live is not None and state.snapshot_id not in self._told:
            self._told.add(state.snapshot_id)
            self._journal.append(
                SnapshotTaken(
                    checkpoint_id=checkpoint_id,
                    snapshot_id=state.snapshot_id,
                    rollout_id=name,
                    attempt=standing.episode_id.attempt,
                    provider=state.provider_name,
                    node=state.node,
                    seconds=seconds,
                )
            )

    async def _install(self, records: Sequence[ResourcesSessionRecord], checkpoint_id: str) -> None:
        """Look at all of them, before the first rollout goes on; the engine forks each when its turn has come."""
        self.saved = await usable_states(records, self._boxes.provider)

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        for episode in episodes:
            self.saved.pop(episode.rollout_id, None)

    async def _release(self, kept: frozenset[str]) -> int:
        index = self._boxes.index
        before = await to_thread.run_sync(index.unneeded, kept, self._boxes.provider.name)
        try:
            return await self._boxes.release(kept)
        finally:
            with anyio.CancelScope(shield=True):
                left = await to_thread.run_sync(index.entries)
                await tell_released(self._journal, [name for name in before if name not in left])

    def _extras(self) -> dict[str, Any]:
        return {"mode": self._boxes.checkpoint_mode_in_effect()}


class CallsWaitedFor:
    """The gateway, as a checkpoint of a run sees it: a reply that trickles, or that nobody reads, holds up no save.

    What is delivered after the cut is in the journal, and in no record: the rollout goes on from before it.
    """

    def __init__(self, gateway: ModelGate, census: Census) -> None:
        self._gateway, self._census = gateway, census
        self.hold, self.release, self.drop = gateway.hold, gateway.release, gateway.drop

    def calls(self, rollout_id: str | None = None) -> Sequence[CallView]:
        """Those that are undelivered, or waited for."""
        found = self._gateway.calls(rollout_id)
        return [call for call in found if not call.is_delivered or self._census.waits_for(call.rollout_id)]


def _told(checkpoint_id: str, standing: Standing) -> CheckpointRollout:
    bookmark = standing.bookmark if standing.state == "held" else None
    return CheckpointRollout(
        checkpoint_id=checkpoint_id,
        rollout_id=standing.episode_id.rollout_id,
        attempt=standing.episode_id.attempt,
        held="saved" if bookmark is not None else "restart",
        boundary=bookmark.next if bookmark is not None else "",
        reason=standing.reason,
        spent_s=bookmark.budget.spent_s if bookmark is not None else 0.0,
    )


async def tell_released(journal: RunWriter, snapshot_ids: Iterable[str]) -> None:
    """Let the journal know which snapshots were deleted; all wait for the disk at the same time."""
    async with anyio.create_task_group() as tasks:
        for name in snapshot_ids:
            event = SnapshotReleased(snapshot_id=name, reason="no kept checkpoint needs it")
            tasks.start_soon(journal.append_async, event)


async def usable_states(
    records: Sequence[ResourcesSessionRecord], provider: SandboxProvider
) -> dict[str, SandboxState]:
    """What each record holds, by rollout; ``invalid_checkpoint_state`` unless this provider has all snapshots."""
    try:
        states = {record.session_id: SandboxState.model_validate(record.state) for record in records}
    except ValidationError as error:
        raise refuse("invalid_checkpoint_state", str(error)) from error
    others = sorted({state.provider_name for state in states.values()} - {provider.name})
    if others:
        raise refuse("invalid_checkpoint_state", f"it was saved with the provider {others[0]}, not {provider.name}")
    here = node_of_snapshots(provider)
    away = sorted({state.node for state in states.values()} - {"", here})
    if away:
        raise refuse("invalid_checkpoint_state", f"its snapshots lie on the node {away[0]}, and this is {here}")
    there = {one.id for one in await provider.snapshots()} if isinstance(provider, SupportsSnapshots) else set()
    gone = sorted(state.snapshot_id for state in states.values() if state.snapshot_id not in there)
    if gone:
        raise refuse("invalid_checkpoint_state", f"{len(gone)} of its snapshots are gone, such as {gone[0]}")
    return states


def _in_scope(standing: Standing, scope: frozenset[EpisodeId] | None) -> bool:
    return standing.state == "held" and (scope is None or standing.episode_id in scope)
