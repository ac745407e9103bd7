"""The episode participant (NeMo Gym's environment): which rollouts are under way, and where each can go on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Protocol

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.participants.episode import Episode
from swe_sdk.checkpoint.participants.pending import require_installable, take_pending
from swe_sdk.checkpoint.records import EpisodeRecord
from swe_sdk.model.budget import Budget
from swe_sdk.model.ids import content_key


class Claims(Protocol):
    """Who knows of the episodes of all workers of a server."""

    async def begin(self, episode_id: EpisodeId, task_digest: str) -> EpisodeRecord | None:
        """This worker begins it, and no other one may; what was restored of it is given once, and here."""

    def end(self, episode_id: EpisodeId) -> None:
        """It is over."""


class EpisodeParticipant(BaseParticipant[EpisodeRecord]):
    """Holds the episodes that are under way, and those that were restored and not claimed yet.

    Where it is one of several workers, ``claims`` holds the restored ones for all of them.
    """

    kind: ClassVar[Kind] = "environment"
    record_type = EpisodeRecord

    def __init__(self, instance: str = "episodes", *, claims: Claims | None = None, **settings: Any) -> None:
        super().__init__(instance, **settings)
        self._claims = claims
        self._claiming: set[EpisodeId] = set()
        """Asked for, and not answered yet: a checkpoint waits for them, since an answer may bring a record along."""
        self._live: dict[str, Episode] = {}
        self._pending: dict[str, EpisodeRecord] = {}
        """Restored, by rollout, until an attempt claims them."""

    @asynccontextmanager
    async def episode(self, episode_id: EpisodeId, *, task: Any, total_s: float | None) -> AsyncIterator[Episode]:
        """An episode from its begin to its end, with what is left of ``total_s`` as its deadline.

        ``task`` is plain data; a restored episode must have the same. Where the budget is spent or the attempt retired,
        the block is cancelled and ``ended_by`` says so; nothing is raised for it.

        Raises ``CheckpointError``: ``admission_closed``, ``stale_attempt``, ``checkpoint_conflict`` (it is under way
        already), ``invalid_checkpoint_state`` (it was saved with another task).
        """
        task_digest = content_key(task)
        self._require_may_begin(episode_id)
        if self._claims is None:
            saved = take_pending(self._pending, episode_id, task_digest)
        else:
            saved = await self._claimed(self._claims, episode_id, task_digest)
        episode = self._begun(episode_id, task_digest, total_s, saved)
        self.changes.notify()
        try:
            with episode.scope:
                episode.keep_time()
                yield episode
            if episode.scope.cancelled_caught and episode.ended_by is None:
                episode.ended_by = "budget"
        finally:
            self._live.pop(episode_id.rollout_id, None)
            if self._claims is not None:
                self._claims.end(episode_id)
            self.changes.notify()

    def _require_may_begin(self, episode_id: EpisodeId) -> None:
        self.marks.require_live(episode_id)
        self.require_open()
        if episode_id.rollout_id in self._live:
            raise refuse("checkpoint_conflict", f"{self._live[episode_id.rollout_id].id} is under way")

    async def _claimed(self, claims: Claims, episode_id: EpisodeId, task_digest: str) -> EpisodeRecord | None:
        """What was granted is begun, even where a checkpoint has been opened since: it waits for us."""
        self._claiming.add(episode_id)
        try:
            saved = await claims.begin(episode_id, task_digest)
        finally:
            self._claiming.discard(episode_id)
            self.changes.notify()
        if self.marks.covers(episode_id):  # since it was asked for
            claims.end(episode_id)
            self.marks.require_live(episode_id)
        return saved

    def _begun(
        self, episode_id: EpisodeId, task_digest: str, total_s: float | None, saved: EpisodeRecord | None
    ) -> Episode:
        budget = Budget(total_s=total_s, spent_s=saved.budget_spent_s if saved else 0.0)
        episode = Episode(episode_id, task_digest, budget, self, saved.boundary if saved else None)
        self._live[episode_id.rollout_id] = episode
        return episode

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _on_close(self) -> None:
        for episode in self._live.values():
            episode.keep_time()

    _on_open = _on_close

    def _report(self) -> PrepareReport:
        retired = [one for one in self._live.values() if self.marks.covers(one.id)]
        blockers = [f"{one.id} is retired and still at work" for one in retired]
        blockers += [f"{one.id} is in {one.state}" for one in self._current() if one.is_blocking]
        blockers += [f"{one} is about to begin" for one in self._claiming]
        states = [one.state for one in self._live.values()]
        return PrepareReport.of(
            blockers,
            counts={**{state: states.count(state) for state in sorted(set(states))}, "pending": len(self._pending)},
            restarts=tuple(one.id for one in self._current() if one.is_restart),
            episodes=(*(one.id for one in self._parked()), *(one.episode_id for one in self._pending.values())),
        )

    def _current(self) -> Iterator[Episode]:
        return (one for one in self._live.values() if not self.marks.covers(one.id))

    def _parked(self) -> Iterator[Episode]:
        return (one for one in self._current() if not one.is_restart and not one.is_blocking)

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[EpisodeRecord]:
        """What is parked, and what was restored and still waits."""
        parked = [one.record() for one in self._parked() if scope is None or one.id in scope]
        return parked + [one for one in self._pending.values() if scope is None or one.episode_id in scope]

    async def _drop_unclaimed(self, scope: frozenset[EpisodeId], also: Collection[str] = ()) -> None:
        self._pending = {name: one for name, one in self._pending.items() if one.episode_id in scope}

    async def _install(self, records: Sequence[EpisodeRecord], checkpoint_id: str) -> None:
        require_installable(records, pending=self._pending, live=[one.id for one in self._current()], marks=self.marks)
        self._pending = {record.episode_id.rollout_id: record for record in records}

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        self._pending = {
            name: record for name, record in self._pending.items() if not self.marks.covers(record.episode_id)
        }
        for episode in self._live.values():
            if self.marks.covers(episode.id):
                episode.stop("retired")
        await self.changes.until(lambda: not any(self.marks.covers(one.id) for one in self._live.values()))

    def _extras(self) -> dict[str, Any]:
        return {"restored_pending": len(self._pending)}
