"""The sessions of a resources server: made, lent, verified and closed, each call as often as it is made."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio

from swe_sdk.agents.contract import AgentTask
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.resources import ResourcesParticipant
from swe_sdk.checkpoint.participants.sessions import ClosedSessions
from swe_sdk.errors import CheckpointError, SandboxClosed, SweError
from swe_sdk.model.ids import content_key, safe_name
from swe_sdk.model.task import Task
from swe_sdk.rollouts.environments import RunEnvironments
from swe_sdk.sandbox.contract import Box, SandboxProvider
from swe_sdk.sandbox.lent_environment import LentEnvironment, open_lent_box
from swe_sdk.server.admission import TooBusy
from swe_sdk.server.gym.boxes import Session, SessionBoxes
from swe_sdk.server.gym.contract import (
    PROVIDER_REF,
    DirectSandboxConnection,
    LentSandbox,
    McpServer,
    ResourcesSeedReply,
    SandboxAccess,
)
from swe_sdk.server.gym.settings import ResourcesSettings
from swe_sdk.server.gym.tokens import Grant, Purpose, Signer
from swe_sdk.server.tasks import FoundTask

TOKEN_HEADER = "X-NeMo-Gym-Session-Token"  # noqa: S105  the name of a header
"""Under which the tools of a session want its token."""
_SWEEPS_A_LIFE = 10
_LATER_S = 5
_log = logging.getLogger(__name__)


class Sessions:
    """Of one event loop. ``url`` is where this server is reached by those who borrow.

    ``participant`` and its hooks hold which sessions there are, for checkpoints too; here is what is done with them.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        participant: ResourcesParticipant,
        boxes: SessionBoxes,
        settings: ResourcesSettings,
        *,
        build_timeout_s: float,
        name: str = "resources",
    ) -> None:
        self.provider = provider
        self.participant = participant
        self.url = ""
        self._name = name
        self.signer = Signer(None if settings.secret is None else settings.secret.get_secret_value().encode())
        self._settings = settings
        self._boxes = boxes
        self._environments = RunEnvironments(provider, build_timeout_s=build_timeout_s, scrub=True)
        self._closed = ClosedSessions()
        self._seeding: dict[str, anyio.Lock] = {}
        self._makings: set[anyio.CancelScope] = set()

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._boxes.known.values()))

    # -- seed -------------------------------------------------------------------------------------------------------

    async def seed(self, episode_id: EpisodeId, found: FoundTask, session_id: str | None) -> ResourcesSeedReply:
        """The session of an attempt, made where it is not there; a later attempt takes over what was restored.

        Raises ``CheckpointError`` (``stale_attempt``, ``checkpoint_conflict``), ``TooBusy``, and what making a sandbox
        raises.
        """
        async with self._one_at_a_time(episode_id.rollout_id):
            session_id = session_id or self._id_for(episode_id)
            self._require_not_closed(session_id)
            await self._supersede(episode_id, session_id)
            async with self.participant.request(session_id, episode_id):
                session = self._boxes.known.get(session_id)
                session = session or await self._made(session_id, episode_id, found)
                if session.seeded_with != _digest(found.task):
                    raise refuse("checkpoint_conflict", f"session {session_id} was seeded with another task")
                self._admit(session, episode_id)
                return self._reply(session)

    def _require_not_closed(self, session_id: str) -> None:
        if session_id in self._closed:
            raise refuse("checkpoint_conflict", f"session {session_id} is closed")

    def _admit(self, session: Session, episode_id: EpisodeId) -> None:
        session.used_at = anyio.current_time()
        if session.expires_at == 0.0 or session.episode_id != episode_id:
            session.episode_id, session.is_restored = episode_id, False
            session.expires_at = time.time() + self._settings.session_lifetime_s

    @asynccontextmanager
    async def _one_at_a_time(self, rollout_id: str) -> AsyncIterator[None]:
        lock = self._seeding.setdefault(rollout_id, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._seeding.pop(rollout_id, None)

    def _id_for(self, episode_id: EpisodeId) -> str:
        mine = [one.id for one in self if one.episode_id == episode_id]
        return mine[0] if mine else f"resources-session-{secrets.token_hex(8)}"

    async def _supersede(self, episode_id: EpisodeId, session_id: str) -> None:
        """Close what an earlier attempt has left behind under another id; nobody will come back for it."""
        for other in self:
            if other.episode_id.rollout_id != episode_id.rollout_id or other.id == session_id:
                continue
            if other.episode_id.attempt > episode_id.attempt:
                raise refuse("stale_attempt", f"session {other.id} is of {other.episode_id}")
            if other.episode_id == episode_id:
                raise refuse("checkpoint_conflict", f"{episode_id} has the session {other.id}")
            await self.close(other.id)

    async def _made(self, session_id: str, episode_id: EpisodeId, found: FoundTask) -> Session:
        try:
            with self._room_for_one():
                lent = await self._lend(session_id, episode_id, found.task)
            self._require_not_closed(session_id)  # meanwhile
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.participant.close_session(session_id)  # it counts from its first request on
            raise
        session = Session(session_id, episode_id, _digest(found.task), *found, lent)
        self._boxes.known[session_id] = session
        return session

    @contextmanager
    def _room_for_one(self) -> Iterator[None]:
        """While a session is made; ``TooBusy`` where there are, or are to be, as many as there may be, and
        ``SandboxClosed`` where all are closed before it is there."""
        if len(self._boxes.known) + len(self._makings) >= self._settings.sessions:
            raise TooBusy("sessions", _LATER_S)
        with anyio.CancelScope() as scope:
            self._makings.add(scope)
            try:
                yield
            finally:
                self._makings.discard(scope)
        if scope.cancelled_caught:
            raise SandboxClosed("the server stops, and the session is not made any more")

    async def _lend(self, session_id: str, episode_id: EpisodeId, task: Task) -> LentEnvironment:
        lent = await self._environments.get(task.environment)
        with anyio.fail_after(self._settings.seed_timeout_s):
            spec = lent.prepared.spec()
            labels = {"task": safe_name(task.instance_id), "rollout": safe_name(episode_id.rollout_id)}
            box = await self.provider.create(spec.model_copy(update={"labels": labels}))
            try:
                lent = await open_lent_box(self._environments.lending, box, task.environment, lent)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await box.close()
                raise
        self._boxes.add(session_id, box)
        return lent

    def _reply(self, session: Session) -> ResourcesSeedReply:
        box = self._boxes.get(session.id)
        lent = LentSandbox(
            url=self.url,
            session_id=session.id,
            token=self._token(session, "sandbox"),
            provider=self.provider.name,
            spec=box.spec.model_dump(mode="json"),
            task=AgentTask.of(session.task, base_commit=session.lent.prepared.base_commit).model_dump(mode="json"),
        )
        connection = DirectSandboxConnection(provider_config_ref=PROVIDER_REF, descriptor=lent.model_dump(mode="json"))
        return ResourcesSeedReply(
            resources_session_id=session.id,
            resources_tools=McpServer(server_name=self._name, headers={TOKEN_HEADER: self._token(session, "tools")}),
            sandbox_access=SandboxAccess(connection=connection, workdir=session.lent.prepared.workdir),
        )

    def _token(self, session: Session, purpose: Purpose) -> str:
        """Always the same for an attempt, so that a seed which is repeated gives the same access."""
        return self.signer.issue(
            Grant(
                purpose=purpose,
                session_id=session.id,
                episode_id=session.episode_id,
                owner=self.url,
                expires_at=session.expires_at,
            )
        )

    # -- use --------------------------------------------------------------------------------------------------------

    def of_episode(self, episode_id: EpisodeId) -> Session:
        """The session of an attempt; ``checkpoint_error`` where it has none, ``stale_attempt`` where another has."""
        self.participant.marks.require_live(episode_id)
        for session in self:
            if session.episode_id.rollout_id == episode_id.rollout_id:
                return _of_attempt(session, episode_id)
        raise refuse("checkpoint_error", f"there is no session of {episode_id}", remedy="seed it first")

    def granted(self, grant: Grant) -> Session:
        """The session that a token is for; the same errors. Tokens of before a restore are over."""
        session = self._boxes.known.get(grant.session_id)
        if session is None:
            raise _gone(grant.session_id)
        self.participant.marks.require_live(grant.episode_id)
        if session.is_restored:
            raise refuse("stale_attempt", f"session {session.id} was restored", remedy="seed it again")
        return _of_attempt(session, grant.episode_id)

    @contextmanager
    def using(self, session: Session) -> Iterator[Box]:
        """Around one call to a session's sandbox. ``TooBusy`` where it has too many, ``checkpoint_error`` where it is
        over."""
        if session.id not in self._boxes.known:
            raise _gone(session.id)
        if session.calls >= self._settings.calls_per_session:
            raise TooBusy("calls of this sandbox", _LATER_S)
        session.calls += 1
        try:
            yield self._boxes.get(session.id)
        finally:
            session.calls -= 1
            session.used_at = anyio.current_time()

    @asynccontextmanager
    async def at_work(self, session: Session, episode_id: EpisodeId) -> AsyncIterator[Box]:
        """The same, for what waits for an open checkpoint, and what one waits for."""
        async with self.participant.request(session.id, episode_id):
            with self.using(session) as box:
                yield box

    # -- the end ----------------------------------------------------------------------------------------------------

    async def close(self, session_id: str, episode_id: EpisodeId | None = None) -> None:
        """End a session and its sandbox; again is well, and an id that is not known is refused from then on.

        ``checkpoint_conflict`` where it is of another rollout, ``stale_attempt`` where a later attempt has taken it.
        """
        session = self._boxes.known.get(session_id)
        if session is not None and episode_id is not None:
            if session.episode_id.rollout_id != episode_id.rollout_id:
                raise refuse("checkpoint_conflict", f"session {session_id} is of {session.episode_id}")
            _of_attempt(session, episode_id)
        self._closed.add(session_id, anyio.current_time())
        if session is not None:
            await self.participant.close_session(session_id)

    async def sweep(self) -> None:
        """Close what nobody uses any more, again and again, until cancelled."""
        settings = self._settings
        while True:
            await anyio.sleep(min(60.0, settings.session_idle_s / _SWEEPS_A_LIFE))
            now = anyio.current_time()
            for session in () if self.participant.is_closed else self:
                is_idle = not session.calls and now - session.used_at > settings.session_idle_s
                if is_idle or time.time() > session.expires_at > 0.0:
                    await self._close_left(session)

    async def until_none(self) -> None:
        """Wait until all have been closed."""
        await self.participant.changes.until(lambda: not self._boxes.known)

    async def aclose(self) -> None:
        """Close all of them, and make none any more of those that are being made."""
        for scope in self._makings:
            scope.cancel()
        for session in self:
            await self._close_left(session)

    async def _close_left(self, session: Session) -> None:
        """Close one; where that fails it stays, to be tried again, and its lease with it."""
        try:
            await self.close(session.id)
        except SweError as error:
            _log.warning("session %s could not be closed: %s", session.id, error)


def _of_attempt(session: Session, episode_id: EpisodeId) -> Session:
    """A later attempt takes over what was restored, whether it is seeded again or not; the one that was cut is over."""
    if session.is_restored and episode_id.attempt > session.episode_id.attempt:
        session.episode_id, session.is_restored = episode_id, False
    if session.is_restored or session.episode_id != episode_id:
        raise refuse("stale_attempt", f"session {session.id} is of {session.episode_id}, not of {episode_id}")
    return session


def _gone(session_id: str) -> CheckpointError:
    return refuse("checkpoint_error", f"there is no session {session_id}", remedy="it was closed, or lost")


def _digest(task: Task) -> str:
    return content_key(task.private())
