"""The stages of an episode over HTTP; :class:`swe_sdk.checkpoint.turn.Turn` goes through them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from pydantic import ValidationError

from swe_sdk.checkpoint.hooks import SeedBody
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.checkpoint.participants.agent import SeedReply
from swe_sdk.checkpoint.turn import ResourcesSeed, SessionHandles
from swe_sdk.errors import CheckpointError, InputError, SweError
from swe_sdk.grading.classify import Failure
from swe_sdk.model.policy import Policy
from swe_sdk.rollouts.failures import failure_of
from swe_sdk.server.gym.contract import (
    AgentCloseRequest,
    AgentSeedRequest,
    EpisodeRequest,
    ResourcesCloseRequest,
    ResourcesSeedReply,
    ResourcesSeedRequest,
    ResourcesVerifyRequest,
    SandboxAccess,
    VerificationInput,
)
from swe_sdk.server.gym.peers import Peer, PeerFailed
from swe_sdk.server.gym.report import AgentReport, ReportedFailure, report_in, response_of
from swe_sdk.server.gym.unseen import failed_verification
from swe_sdk.server.models import ModelResponse, ResponsesCreateParams
from swe_sdk.server.wire import ACTIVATION, REBINDS_TOOLS, RESTART, VERIFY, path_of

_log = logging.getLogger(__name__)


class AgentSide(Protocol):
    """The agent of an episode, in this process or behind HTTP."""

    async def seed(self, request: AgentSeedRequest) -> SeedReply:
        """Make its session."""

    async def invoke(
        self, session_id: str, index: int | None, asked: ResponsesCreateParams, episode_id: EpisodeId | None
    ) -> dict[str, Any]:
        """Its response."""

    async def close(self, request: AgentCloseRequest) -> None:
        """End its session."""


class RemoteAgent:
    """An agent server."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def seed(self, request: AgentSeedRequest) -> SeedReply:
        """``POST /v1/agent_sessions``."""
        body = request.model_dump(mode="json")
        answer = await self._peer.post(f"{path_of(request.episode_id)}/v1/agent_sessions", body)
        return SeedReply(
            session_id=request.agent_session_id,
            restarts=answer.headers.get(RESTART) == "1",
            rebinds_tools=answer.headers.get(REBINDS_TOOLS) == "1",
        )

    async def invoke(
        self, session_id: str, index: int | None, asked: ResponsesCreateParams, episode_id: EpisodeId | None
    ) -> dict[str, Any]:
        """``POST /v1/responses``; never made again once it was delivered, because an agent may have begun."""
        assert episode_id is not None
        headers = {ACTIVATION: str(index), "Cookie": f"agent_session_id={session_id}"}
        path = f"{path_of(episode_id)}/v1/responses"
        body = asked.model_dump(mode="json", exclude_unset=True)
        told = (await self._peer.post(path, body, headers=headers, again=False)).body
        try:
            ModelResponse.model_validate(told)
        except ValidationError as error:
            raise PeerFailed("agent_crashed", f"the agent server's answer is no response: {error}", {}) from error
        return told

    async def close(self, request: AgentCloseRequest) -> None:
        """``POST /v1/agent_sessions/close``."""
        await self._peer.post(f"{path_of(request.episode_id)}/v1/agent_sessions/close", request.model_dump(mode="json"))


class EpisodeStages:
    """Implements :class:`swe_sdk.checkpoint.turn.Stages` for one episode, and notes how long each stage takes.

    A stage that fails makes a verdict of that, with a mask that says why; only seeds raise, as nothing was begun.
    """

    def __init__(self, request: EpisodeRequest, resources: Peer, agent: AgentSide, policy: Policy) -> None:
        self._request = request
        self._resources = resources
        self._agent = agent
        self._policy = policy
        self.stages_s: dict[str, float] = {}
        self.stages_at: dict[str, float] = {}
        """Unix seconds."""
        self.sessions: dict[str, str] = {}
        """What may have been seeded, and must be closed: the ids by ``resources`` and ``agent``."""

    @property
    def _asked(self) -> ResponsesCreateParams:
        return self._request.task.task_input.responses_create_params

    @contextmanager
    def _within(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        self.stages_at.setdefault(stage, time.time())
        try:
            yield
        finally:
            self.stages_s[stage] = self.stages_s.get(stage, 0.0) + time.monotonic() - began

    async def seed_resources(self, session_id: str, episode_id: EpisodeId) -> ResourcesSeed:
        """``POST /seed_session``."""
        task = self._request.task
        body = ResourcesSeedRequest(
            episode_id=episode_id,
            task_id=task.task_id,
            task_data=task.task_input.task_data,
            resources_session_id=session_id,
        )
        self.sessions["resources"] = session_id
        with self._within("seed"):
            answer = await self._resources.post(f"{path_of(episode_id)}/seed_session", body.model_dump(mode="json"))
        reply = _read_seed(answer.body)
        access = reply.sandbox_access
        return ResourcesSeed(
            sandbox=None if access is None else access.model_dump(mode="json"),
            verify="replay" if answer.headers.get(VERIFY) == "replay" else "wait",
            restarts=answer.headers.get(RESTART) == "1",
        )

    async def seed_agent(self, body: SeedBody) -> SeedReply:
        """Hand the sandbox on."""
        self.sessions["agent"] = body.session_id
        request = AgentSeedRequest(
            agent_session_id=body.session_id,
            episode_id=body.episode_id,
            task_id=self._request.task.task_id,
            sandbox_access=None if body.sandbox is None else SandboxAccess.model_validate(body.sandbox),
        )
        with self._within("seed"):
            return await self._agent.seed(request)

    async def invoke_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> Any:
        """The one activation of the turn. An agent that is gone has said nothing, but that."""
        with self._within("invoke_agent"):
            try:
                return await self._agent.invoke(handles.agent_session_id, 1, self._asked, episode_id)
            except CheckpointError:
                raise
            except SweError as error:
                failure = error.failure("agent") if isinstance(error, PeerFailed) else failure_of(error, "agent")
                return response_of(AgentReport(broke=ReportedFailure.of(failure)))

    async def close_agent(self, handles: SessionHandles, episode_id: EpisodeId) -> None:
        """An agent server that does not answer closes the session by itself, in time."""
        with self._within("close_agent"):
            await self._close_agent(handles.agent_session_id, episode_id)

    async def _close_agent(self, session_id: str, episode_id: EpisodeId) -> None:
        try:
            await self._agent.close(AgentCloseRequest(agent_session_id=session_id, episode_id=episode_id))
            self.sessions.pop("agent", None)
        except SweError as error:
            _log.warning("session %s of %s was not closed: %s", session_id, episode_id, error)

    async def verify(self, handles: SessionHandles, response: Any, episode_id: EpisodeId) -> Any:
        """The verdict; masked where the resources server gives none."""
        asked = VerificationInput.model_validate({"responses_create_params": self._asked, "response": response})
        body = ResourcesVerifyRequest(
            episode_id=episode_id, task_id=self._request.task.task_id, verification_input=asked
        )
        told = body.model_dump(mode="json", exclude_unset=True)
        with self._within("verify"):
            try:
                return (await self._resources.post(f"{path_of(episode_id)}/verify", told)).body
            except PeerFailed as error:
                kind = "verifier_unreachable" if error.kind == "lost_worker" else error.kind
                return self.failed(replace(error.failure("verify"), kind=kind), response)

    def failed(self, failure: Failure, response: Any = None) -> dict[str, Any]:
        """The verification of an episode that has none: what broke first is what it says."""
        first = _broke_first(response) or failure
        return {
            "responses_create_params": self._asked.model_dump(mode="json", exclude_unset=True),
            "response": response or response_of(AgentReport(broke=ReportedFailure.of(first))),
            **failed_verification(self._request.task.task_id.task_id, self._policy, first),
        }

    def know(self, handles: SessionHandles | None) -> None:
        """An episode that goes on has sessions already."""
        if handles is not None:
            self.sessions = {"resources": handles.resources_session_id, "agent": handles.agent_session_id}

    async def close(self) -> None:
        """End whatever sessions there may be, the agent's first."""
        episode_id = self._request.episode_id
        if "agent" in self.sessions:
            await self._close_agent(self.sessions["agent"], episode_id)
        if "resources" in self.sessions:
            body = ResourcesCloseRequest(resources_session_id=self.sessions["resources"], episode_id=episode_id)
            try:
                await self._resources.post(f"{path_of(episode_id)}/close_session", body.model_dump(mode="json"))
            except SweError as error:
                _log.warning("%s of %s was not closed: %s", body.resources_session_id, episode_id, error)


def _broke_first(response: Any) -> Failure | None:
    """What a response says of its agent, if that failed."""
    try:
        broke = report_in((response or {}).get("metadata")).broke
    except InputError:
        return None
    return None if broke is None else broke.failure


def _read_seed(told: dict[str, Any]) -> ResourcesSeedReply:
    known = {name: value for name, value in told.items() if name in ResourcesSeedReply.model_fields}
    try:
        return ResourcesSeedReply.model_validate(known)
    except ValidationError as error:
        raise PeerFailed("internal_error", f"the reply to a seed is none: {error}", {}) from error
