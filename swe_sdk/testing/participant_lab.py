"""What the checks of hooks are made with: a case that the author of the hooks writes, and processes around it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_sdk.checkpoint.hooks import AgentHooks, ResourcesHooks, SeedBody
from swe_sdk.checkpoint.messages import (
    CommitRequest,
    EpisodeId,
    PrepareRequest,
    ReleaseRequest,
    RestoreRequest,
    ResumeRequest,
    RetireRequest,
)
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.participants.agent import AgentParticipant
from swe_sdk.checkpoint.participants.resources import ResourcesParticipant
from swe_sdk.testing.expect import NotApplicable, require

LIMIT_S = 60.0


class ParticipantCase:
    """How the hooks under test are made and used. Override all but :meth:`seed`, :meth:`control` and :meth:`end`."""

    def make(self) -> AgentHooks | ResourcesHooks:
        """Hooks as in a new process; what is on disks and at other services may be shared with those made before."""
        raise NotImplementedError

    async def begin(self, hooks: Any, session_id: str) -> None:
        """Give a session a state; it exists already."""
        raise NotImplementedError

    async def change(self, hooks: Any, session_id: str) -> None:
        """Change that state, visibly, and differently each time."""
        raise NotImplementedError

    async def look(self, hooks: Any, session_id: str) -> Any:
        """The state of a session, as anything that can be compared."""
        raise NotImplementedError

    def seed(self, session_id: str, episode_id: EpisodeId) -> SeedBody:
        """What a session of an agent is seeded with."""
        return SeedBody(session_id=session_id, episode_id=episode_id)

    @asynccontextmanager
    async def control(self, participant: Participant) -> AsyncIterator[Participant]:
        """How the participant is controlled: directly, or by what you put in between, such as HTTP."""
        yield participant

    async def end(self, hooks: Any) -> None:
        """The process of these hooks ends."""


@dataclass
class Process:
    """Hooks and their participant, while one process lives."""

    case: ParticipantCase
    hooks: Any
    participant: AgentParticipant | ResourcesParticipant
    control: Participant
    directory: Path

    async def start(self, *sessions: str) -> None:
        """Make sessions, each of a rollout of the same name."""
        for session in sessions:
            await self._touch(session, EpisodeId(rollout_id=session, attempt=1))
            await self.case.begin(self.hooks, session)

    async def _touch(self, session: str, episode_id: EpisodeId) -> None:
        if isinstance(self.participant, AgentParticipant):
            await self.participant.seed(self.case.seed(session, episode_id))
            return
        async with self.participant.request(session, episode_id):
            pass

    async def look(self, session: str) -> Any:
        """The state of a session."""
        return await self.case.look(self.hooks, session)

    async def change(self, session: str) -> None:
        """Change a session."""
        await self.case.change(self.hooks, session)

    async def save(self, name: str, *sessions: str) -> None:
        """Save these sessions, and go on."""
        scope = _scope(sessions)
        prepared = await self.control.prepare(PrepareRequest(checkpoint_id=name, deadline_ts=deadline()))
        require(prepared.report.ready, f"it does not get ready: {prepared.report.blockers}")
        try:
            where = str(self.directory / name)
            await self.control.commit(
                CommitRequest(checkpoint_id=name, deadline_ts=deadline(), checkpoint_dir=where, episode_ids=scope)
            )
        finally:
            await self.control.resume(ResumeRequest(checkpoint_id=name, deadline_ts=deadline()))

    async def restore(self, name: str, *sessions: str) -> None:
        """Restore these sessions, and open."""
        where = str(self.directory / name)
        request = RestoreRequest(
            checkpoint_id=name, deadline_ts=deadline(), checkpoint_dir=where, episode_ids=_scope(sessions)
        )
        await self.control.restore(request)
        await self.control.resume(ResumeRequest(checkpoint_id=name, deadline_ts=deadline()))

    async def release(self, name: str, *kept: str) -> None:
        """Free what only other checkpoints need."""
        await self.control.release(ReleaseRequest(checkpoint_id=name, deadline_ts=deadline(), kept=kept))

    async def retire(self, *sessions: str) -> None:
        """The attempts of these sessions are over."""
        request = RetireRequest(checkpoint_id="retire", deadline_ts=deadline(), episode_ids=_scope(sessions))
        await self.control.retire(request)


class ParticipantLab:
    """One case, with a directory of its own for each check."""

    def __init__(self, case: ParticipantCase) -> None:
        self.case = case

    def require_exported(self) -> None:
        """Not applicable where the hooks save nothing."""
        mode = self.case.make().checkpoint_mode_in_effect()
        if mode != "exported":
            raise NotApplicable(f"the mode in effect is {mode}")

    @asynccontextmanager
    async def directory(self) -> AsyncIterator[Path]:
        """An empty directory for checkpoints."""
        with tempfile.TemporaryDirectory(prefix="swe_sdk-participant-") as name:
            yield Path(name)

    @asynccontextmanager
    async def process(self, directory: Path) -> AsyncIterator[Process]:
        """A new process."""
        hooks = self.case.make()
        participant: AgentParticipant | ResourcesParticipant
        if isinstance(hooks, AgentHooks):
            participant = AgentParticipant(hooks=hooks)
        else:
            participant = ResourcesParticipant(hooks=hooks)
        async with participant:
            try:
                async with self.case.control(participant) as control:
                    yield Process(self.case, hooks, participant, control, directory)
            finally:
                await self.case.end(hooks)


def _scope(sessions: Iterable[str]) -> tuple[EpisodeId, ...]:
    return tuple(EpisodeId(rollout_id=session, attempt=1) for session in sessions)


def deadline() -> float:
    """Unix seconds until which an operation of a check may take."""
    return time.time() + LIMIT_S
