"""The resources participant: sessions that hold an episode's environment, and the requests to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.hooks import ResourcesHooks, check_resources_hooks
from swe_sdk.checkpoint.messages import EpisodeId, Kind, Mode, PrepareReport
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.participants.calls import owner_in, undo
from swe_sdk.checkpoint.records import ResourcesSessionRecord


@dataclass
class _Session:
    episode_id: EpisodeId
    is_restored: bool = False
    """Whether it came from a checkpoint, and no attempt has claimed it yet."""


class ResourcesParticipant(BaseParticipant[ResourcesSessionRecord]):
    """Holds which sessions there are and whose; its hooks hold their state, and are checked here (``ValueError``)."""

    kind: ClassVar[Kind] = "resources"
    record_type = ResourcesSessionRecord

    def __init__(
        self, instance: str = "resources", *, hooks: ResourcesHooks, verify: str = "wait", **settings: Any
    ) -> None:
        super().__init__(instance, **settings)
        check_resources_hooks(hooks)
        self.hooks = hooks
        self._verify = verify
        self._sessions: dict[str, _Session] = {}
        self._requests: Counter[str] = Counter()

    @property
    def mode(self) -> Mode:
        """How far this instance can be saved now."""
        return self.hooks.checkpoint_mode_in_effect()

    @asynccontextmanager
    async def request(self, session_id: str, episode_id: EpisodeId) -> AsyncIterator[None]:
        """One request to a session, made for an attempt; the first one makes the session, or claims a restored one.

        It waits while a checkpoint is open. Raises ``CheckpointError``: ``stale_attempt``, ``checkpoint_conflict``.
        """
        await self.until_open()
        self.marks.require_live(episode_id)
        self._claim(session_id, episode_id)
        self._requests[session_id] += 1
        try:
            yield
        finally:
            self._requests -= Counter([session_id])
            self.changes.notify()

    def _claim(self, session_id: str, episode_id: EpisodeId) -> None:
        session = self._sessions.setdefault(session_id, _Session(episode_id))
        if session.episode_id.rollout_id != episode_id.rollout_id:
            raise refuse("checkpoint_conflict", f"session {session_id} is of {session.episode_id}")
        earlier = episode_id.attempt < session.episode_id.attempt
        if earlier or (session.is_restored and episode_id == session.episode_id):  # restored, it goes on as a later one
            raise refuse("stale_attempt", f"session {session_id} is of {session.episode_id}")
        session.episode_id, session.is_restored = episode_id, False

    async def close_session(self, session_id: str) -> None:
        """End a session: never refused, not even while a checkpoint is open or after its attempt was retired."""
        if session_id in self._sessions:
            await self.hooks.close_session_state(session_id)
            self._sessions.pop(session_id, None)
            self.changes.notify()

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _on_open(self) -> None:
        self.hooks.admission_opened()

    def _current(self) -> Iterator[tuple[str, _Session]]:
        return ((key, one) for key, one in self._sessions.items() if not self.marks.covers(one.episode_id))

    def _report(self) -> PrepareReport:
        blockers = [f"{count} requests to session {key} are in flight" for key, count in self._requests.items()]
        restarts = dict.fromkeys(one.episode_id for _, one in self._current()) if self.mode == "restart_only" else {}
        counts = {"sessions": len(self._sessions), "requests": self._requests.total()}
        return PrepareReport.of(
            [] if self.mode == "restart_only" else blockers, counts=counts, restarts=tuple(restarts)
        )

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[ResourcesSessionRecord]:
        if self.mode != "exported":
            return []
        found = ((key, owner_in(scope, one.episode_id, unclaimed=one.is_restored)) for key, one in self._current())
        owners = {key: owner for key, owner in found if owner is not None}
        if not owners:
            return []
        states = await self.hooks.export_session_states(list(owners), checkpoint_id=checkpoint_id)
        return [
            ResourcesSessionRecord(episode_id=owner, session_id=key, state=states[key])
            for key, owner in owners.items()
            if key in states
        ]

    async def _drop_unclaimed(self, scope: frozenset[EpisodeId], also: Collection[str] = ()) -> None:
        for key, session in [(key, one) for key, one in self._sessions.items() if one.is_restored]:
            if key in also or owner_in(scope, session.episode_id, unclaimed=True) is None:
                del self._sessions[key]
                await self.hooks.retire_session_state(key)

    async def _install(self, records: Sequence[ResourcesSessionRecord], checkpoint_id: str) -> None:
        both = [record.session_id for record in records if record.session_id in self._sessions]
        if both:
            raise refuse("checkpoint_conflict", f"sessions are live: {', '.join(both[:5])}", remedy="retire them first")
        states = {record.session_id: record.state for record in records}
        if states:
            try:
                await self.hooks.restore_session_states(states)
            except BaseException:
                await undo(self.hooks.retire_session_state, states)
                raise
        self._sessions.update({one.session_id: _Session(one.episode_id, is_restored=True) for one in records})

    async def _settle(self) -> None:
        await self.hooks.settle()

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        over = [key for key, one in self._sessions.items() if self.marks.covers(one.episode_id)]
        await self.changes.until(lambda: not any(self._requests[key] for key in over))
        for key in over:
            await self.hooks.retire_session_state(key)
            self._sessions.pop(key, None)
            self.changes.notify()

    async def _release(self, kept: frozenset[str]) -> int:
        return await self.hooks.release_external_state(kept) if self.mode == "exported" else 0

    @property
    def session_episodes(self) -> dict[str, EpisodeId]:
        """Whose each session is, until it is closed."""
        return {key: one.episode_id for key, one in self._sessions.items()}

    def _extras(self) -> dict[str, Any]:
        retired = sum(self.marks.covers(one.episode_id) for one in self._sessions.values())
        return {"mode": self.mode, "verify": self._verify, "retired_sessions": retired}
