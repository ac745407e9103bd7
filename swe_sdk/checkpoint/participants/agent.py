"""The agent participant: sessions, and activations that park at their boundaries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.hooks import AgentHooks, SeedBody, check_agent_hooks
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport
from swe_sdk.checkpoint.participants.activation import Activation, Work
from swe_sdk.checkpoint.participants.base import BaseParticipant
from swe_sdk.checkpoint.participants.calls import owner_in, undo
from swe_sdk.checkpoint.participants.sessions import AgentSession, ClosedSessions, seed_key, session_of
from swe_sdk.checkpoint.records import AgentSessionRecord
from swe_sdk.checkpoint.waiting import Background
from swe_sdk.errors import CheckpointError
from swe_sdk.model.record import Record


class SeedReply(Record):
    """What came of a seed."""

    session_id: str
    restarts: bool = False
    """Whether its episode can only start over (NeMo Gym's header ``x-ng-checkpoint-restart``)."""
    rebinds_tools: bool = False
    """Whether a restored session wants to be seeded again (``x-ng-checkpoint-rebinds-tools``)."""


class AgentParticipant(BaseParticipant[AgentSessionRecord]):
    """Holds the sessions of one agent; its hooks are checked here (``ValueError``)."""

    kind: ClassVar[Kind] = "agent"
    record_type = AgentSessionRecord

    def __init__(self, instance: str = "agent", *, hooks: AgentHooks | None = None, **settings: Any) -> None:
        super().__init__(instance, **settings)
        self.hooks = hooks or AgentHooks()
        check_agent_hooks(self.hooks)
        self._sessions: dict[str, AgentSession] = {}
        self._closed = ClosedSessions()
        self._first_seeds: dict[str, tuple[SeedBody, Background[SeedReply]]] = {}
        self._seeds_again: dict[str, EpisodeId] = {}
        self._cut_seeds: dict[str, EpisodeId] = {}
        """First seeds that were in flight when admission closed last: restarts of that checkpoint, and of no other."""

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def seed(self, body: SeedBody) -> SeedReply:
        """Make a session, or get the one that this seed has made already. Waits while a checkpoint is open.

        A restored session is given new grants and a new sandbox, where the agent can do that. Raises
        ``CheckpointError``: ``stale_attempt``; ``checkpoint_conflict`` for an id that is closed, or in use with another
        seed.
        """
        await self.until_open()
        self.marks.require_live(body.episode_id)
        self._require_not_closed(body.session_id)
        if body.session_id in self._first_seeds:
            seed, under_way = self._first_seeds[body.session_id]
            if seed_key(seed) != seed_key(body):
                raise _other_seed(body)
            return await under_way.result()
        session = self._sessions.get(body.session_id)
        return await (self._seed_first(body) if session is None else self._seed_again(session, body))

    def _require_not_closed(self, session_id: str) -> None:
        if session_id in self._closed:
            raise refuse("checkpoint_conflict", f"session {session_id} is closed")

    async def _seed_first(self, body: SeedBody) -> SeedReply:
        under_way = Background[SeedReply]()
        self._first_seeds[body.session_id] = (body, under_way)
        try:
            await self.hooks.seed_agent_session(body)
            if self.marks.covers(body.episode_id):
                await self.hooks.retire_agent_session(body.session_id)
                self.marks.require_live(body.episode_id)
            if body.session_id in self._closed:  # meanwhile
                await self.hooks.close_agent_session(body.session_id)
                self._require_not_closed(body.session_id)
            is_restart = self.hooks.checkpoint_mode_in_effect() == "restart_only" or self.hooks.seed_restarts(body)
            session = AgentSession(body.session_id, body, seed_key(body), is_restart)
            self._sessions[body.session_id] = session
            reply = self._seeded(session)
            under_way.succeed(reply)
            return reply
        finally:
            del self._first_seeds[body.session_id]
            if not under_way.is_done:
                under_way.fail(refuse("checkpoint_error", f"the seed of {body.session_id} did not succeed"))
            self.changes.notify()

    async def _seed_again(self, session: AgentSession, body: SeedBody) -> SeedReply:
        rebinds = session.is_restored and self.hooks.rebinds_tool_accesses
        session.claim(body.episode_id)
        is_same = session.seeded_with == seed_key(body)
        if not (is_same or rebinds):
            raise _other_seed(body)
        self._seeds_again[session.key] = body.episode_id
        try:
            if not is_same:
                session.is_restored = True  # until it is done: a failure may be repeated
                await self.hooks.rebind_restored_agent_session_state(session.key, body)
            session.seed, session.seeded_with, session.is_restored = body, seed_key(body), False
        finally:
            del self._seeds_again[session.key]
            self.changes.notify()
        return self._seeded(session)

    def _seeded(self, session: AgentSession) -> SeedReply:
        rebinds = self.hooks.rebinds_tool_accesses
        return SeedReply(session_id=session.key, restarts=session.is_restart, rebinds_tools=rebinds)

    async def close_session(self, session_id: str) -> None:
        """End a session; again is well, and an unknown id is refused from now on."""
        session = self._sessions.get(session_id)
        if session is not None and session.activation is not None:
            raise refuse("checkpoint_conflict", f"session {session_id} is at work")
        self._closed.add(session_id, self._clock())
        if session is not None:
            await self.hooks.close_agent_session(session_id)
            self._sessions.pop(session_id, None)
            self.changes.notify()

    # -- activations ------------------------------------------------------------------------------------------------

    async def activate(self, session_id: str, index: int, work: Work, *, episode_id: EpisodeId | None = None) -> Any:
        """Run ``work`` as the activation ``index`` (1, 2, 3, ...) of a session, and return its reply (plain data).

        A completed index gets the same reply, and nothing runs. ``episode_id`` is the attempt that calls: after a
        restore, it takes the session over. Raises ``CheckpointError``: ``stale_attempt``, ``activation_out_of_order``,
        ``checkpoint_conflict`` (it is under way), ``checkpoint_error`` (no such session).
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise refuse("checkpoint_error", f"there is no session {session_id}", remedy="seed it first")
        self.marks.require_live(episode_id or session.episode_id)
        session.claim(episode_id)
        if index <= session.completed:
            return session.replay(index)
        session.require_next(index)
        if session.activation is not None:
            raise refuse("checkpoint_conflict", f"activation {index} of {session_id} is under way")
        return await self._run(session, index, work)

    def next_activation(self, session_id: str) -> int:
        """The index that the next activation of a session has, for callers that do not count; 1 for an unknown one."""
        session = self._sessions.get(session_id)
        return 1 if session is None else session.completed + 1

    async def _run(self, session: AgentSession, index: int, work: Work) -> Any:
        saved = session.saved if session.saved_index == index else None
        activation = Activation(session.key, index, self, saved=saved, is_restart=session.is_restart)
        session.activation = activation
        self.changes.notify()
        try:
            with activation.scope:
                await activation.enter()
                session.saved_index, session.saved = None, None  # from here on the activation has it
                reply = await work(activation)
                session.complete(index, reply)
        finally:
            session.activation = None
            self.changes.notify()
        self.marks.require_live(session.episode_id)
        return session.replay(index)

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _on_close(self) -> None:
        self._cut_seeds = {key: seed.episode_id for key, (seed, _) in self._first_seeds.items()}

    def _report(self) -> PrepareReport:
        current, states = list(self._current()), [_state(session) for session in self._sessions.values()]
        retired = [one for one in self._sessions.values() if self.marks.covers(one.episode_id)]
        blockers = [f"session {one.key} of {one.episode_id} is retired and not stopped" for one in retired]
        blockers += [f"session {key} of {episode} is being seeded again" for key, episode in self._seeds_again.items()]
        blockers += [
            f"session {one.key} of {one.episode_id} is running"
            for one in current
            if _state(one) == "running" and not self._is_restart(one)
        ]
        restarts = {one.episode_id: None for one in current if self._is_restart(one)}
        restarts.update(dict.fromkeys(one for one in self._cut_seeds.values() if not self.marks.covers(one)))
        return PrepareReport.of(
            blockers,
            counts={**{one: states.count(one) for one in sorted(set(states))}, "first_seeds": len(self._first_seeds)},
            restarts=tuple(restarts),
        )

    def _current(self) -> Iterator[AgentSession]:
        return (one for one in self._sessions.values() if not self.marks.covers(one.episode_id))

    def _is_restart(self, session: AgentSession) -> bool:
        return session.is_restart or session.key in self._cut_seeds

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[AgentSessionRecord]:
        chosen = {one.key: one for one in self._current() if not self._is_restart(one)}
        owners = {key: owner_in(scope, one.episode_id, unclaimed=one.is_restored) for key, one in chosen.items()}
        keys = [key for key, owner in owners.items() if owner is not None]
        states = await self.hooks.export_agent_sessions(keys, checkpoint_id=checkpoint_id) if keys else {}
        missing = [key for key in keys if key not in states]
        if missing:
            raise refuse("checkpoint_error", f"the agent did not export {', '.join(missing[:5])}")
        return [chosen[key].record(owner, states[key]) for key, owner in owners.items() if owner is not None]

    async def _drop_unclaimed(self, scope: frozenset[EpisodeId], also: Collection[str] = ()) -> None:
        for session in [one for one in self._sessions.values() if one.is_restored]:
            if session.key in also or owner_in(scope, session.episode_id, unclaimed=True) is None:
                del self._sessions[session.key]
                await self.hooks.retire_agent_session(session.key)

    async def _install(self, records: Sequence[AgentSessionRecord], checkpoint_id: str) -> None:
        if self._sessions or self._first_seeds:
            raise refuse("checkpoint_conflict", f"{len(self._sessions)} sessions are live", remedy="retire them first")
        sessions = [session_of(record) for record in records]
        states = {record.session_key: record.session.get("state") for record in records}
        if states:
            try:
                await self.hooks.restore_agent_sessions(states)
            except BaseException:
                await undo(self.hooks.retire_agent_session, states)
                raise
        self._sessions = {session.key: session for session in sessions}

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        await self.changes.until(lambda: not any(map(self.marks.covers, self._seeding())))
        over = [one for one in self._sessions.values() if self.marks.covers(one.episode_id)]
        for session in over:
            if session.activation is not None and not session.activation.scope.cancel_called:
                session.activation.scope.cancel()
        await self.changes.until(lambda: all(one.activation is None for one in over))
        for session in over:
            await self.hooks.retire_agent_session(session.key)
            self._sessions.pop(session.key, None)
            self._closed.add(session.key, self._clock())
            self.changes.notify()

    def _seeding(self) -> list[EpisodeId]:
        return [*(body.episode_id for body, _ in self._first_seeds.values()), *self._seeds_again.values()]

    async def _release(self, kept: frozenset[str]) -> int:
        exported = self.hooks.checkpoint_mode_in_effect() == "exported"
        return await self.hooks.release_external_state(kept) if exported else 0

    @property
    def session_episodes(self) -> dict[str, EpisodeId]:
        """Whose each session is, until it is closed."""
        return {key: one.episode_id for key, one in self._sessions.items()}

    def _extras(self) -> dict[str, Any]:
        return {"accepting": not self.is_closed, "mode": self.hooks.checkpoint_mode_in_effect()}


def _other_seed(body: SeedBody) -> CheckpointError:
    return refuse("checkpoint_conflict", f"session {body.session_id} was seeded with something else")


def _state(session: AgentSession) -> str:
    return "idle" if session.activation is None else session.activation.state
