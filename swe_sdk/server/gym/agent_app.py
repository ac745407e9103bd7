"""The agent server as an application: its sessions, and whole episodes in the legacy flat format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swe_sdk.alongside import alongside
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.server.answering import Work, answered
from swe_sdk.server.bodies import parsed
from swe_sdk.server.gym.agent import AgentService
from swe_sdk.server.gym.attempts import attempt_in, require_same, session_cookie, with_attempts
from swe_sdk.server.gym.contract import (
    AgentCloseReply,
    AgentCloseRequest,
    AgentSeedReply,
    AgentSeedRequest,
)
from swe_sdk.server.gym.flat import FlatRuns
from swe_sdk.server.gym.front import Front, StillOpen, application, health_response, openapi_route, while_patient
from swe_sdk.server.gym.openapi import agent_document
from swe_sdk.server.models import ResponsesCreateParams
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.validation import validated
from swe_sdk.server.wire import ACTIVATION, REBINDS_TOOLS, RESTART

SESSION_COOKIE = "agent_session_id"
"""Binds activations to their session, for callers that send cookies back."""
_CLOSE_CAP_S = 60.0


class AgentServer:
    """Everything that one agent server has; without ``flat`` there is no ``/run``."""

    def __init__(self, settings: ServerSettings, service: AgentService, flat: FlatRuns | None = None) -> None:
        self.front = Front(settings)
        self.service = service
        self._still_open = StillOpen(self.front)
        self._flat = flat

    async def drain(self, *, stop: anyio.Event) -> None:
        """Make no more sessions, and let those that there are come to their end."""
        self.front.is_draining = True
        if not await while_patient(self.service.until_none, self.front.settings.drain_s, stop):
            stop.set()
        await self.front.drain(stop=stop)

    def app(self) -> Starlette:
        """To be run by any ASGI server, in one process."""
        endpoints = {
            "/v1/agent_sessions": self.seed,
            "/v1/agent_sessions/close": self.close,
            "/v1/responses": self.responses,
            **({"/run": self.run} if self._flat else {}),
        }
        routes = [
            Route("/health", self.health, methods=["GET"]),
            openapi_route(agent_document(self.front.settings, flat=self._flat is not None)),
            *with_attempts(endpoints),
        ]
        participant = self.service.participant
        return application(routes, self._lifespan, participant, participant.settings)

    async def health(self, request: Request) -> Response:
        """How it is."""
        agent, held = self.service.workshop.agent, self.service.boxes.held.values()
        told = {"agent": agent.name, "agent_version": agent.version, "sessions": len(held)}
        activations = sum(one.activations for one in held)
        return health_response(self.front.health("agent", **told, activations=activations))

    async def seed(self, request: Request) -> Response:
        """Make a session."""
        headers: dict[str, str] = {}

        def read(body: bytearray) -> Work:
            asked = validated(AgentSeedRequest, parsed(body))
            require_same(request, asked.episode_id)
            return partial(self._seed, asked, headers)

        response = await answered(self.front, request, read)
        response.headers.update(headers)
        return response

    async def _seed(self, asked: AgentSeedRequest, headers: dict[str, str]) -> dict[str, Any]:
        reply = await self.service.seed(asked)
        headers["Set-Cookie"] = session_cookie(SESSION_COOKIE, reply.session_id)
        headers.update({name: "1" for name, told in _flags(reply.restarts, reply.rebinds_tools).items() if told})
        return AgentSeedReply(agent_session_id=reply.session_id).model_dump()

    async def close(self, request: Request) -> Response:
        """End a session."""

        def read(body: bytearray) -> Work:
            asked = validated(AgentCloseRequest, parsed(body))
            require_same(request, asked.episode_id)
            return partial(self._close, asked)

        return await answered(self._still_open, request, read)

    async def _close(self, asked: AgentCloseRequest) -> dict[str, Any]:
        await self.service.close(asked)
        return AgentCloseReply(agent_session_id=asked.agent_session_id).model_dump()

    async def responses(self, request: Request) -> Response:
        """Activate a session: that of the cookie, or of the attempt below whose path it is asked for."""
        attempt, cookie = attempt_in(request), request.cookies.get(SESSION_COOKIE)
        index = request.headers.get(ACTIVATION)

        def read(body: bytearray) -> Work:
            asked = validated(ResponsesCreateParams, parsed(body))
            return partial(self._invoke, cookie, attempt, _index(index), asked)

        return await answered(self._still_open, request, read)

    async def _invoke(
        self, cookie: str | None, attempt: EpisodeId | None, index: int | None, asked: ResponsesCreateParams
    ) -> dict[str, Any]:
        if cookie is None and attempt is None:
            raise refuse("rollout_id_required", "an activation names its session by cookie, or its attempt by path")
        session = cookie if cookie is not None else self.service.session_of(attempt)  # type: ignore[arg-type]
        return await self.service.invoke(session, index, asked, attempt)

    async def run(self, request: Request) -> Response:
        """A whole episode, from a flat row to a flat row."""
        assert self._flat is not None
        flat, attempt = self._flat, attempt_in(request)

        def read(body: bytearray) -> Work:
            return flat.work(parsed(body), attempt)

        return await answered(self.front, request, read)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async with self.running(), self.service.participant:
            yield

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All that goes on while it serves, beside its participant, which is opened within the block."""
        try:
            async with alongside() as tasks:
                tasks.start_soon(self.service.sweep)
                yield
        finally:
            with anyio.move_on_after(_CLOSE_CAP_S, shield=True):
                await self.service.aclose()


def _flags(restarts: bool, rebinds: bool) -> dict[str, bool]:
    return {RESTART: restarts, REBINDS_TOOLS: rebinds}


def _index(told: str | None) -> int | None:
    if told is None:
        return None
    if not (told.isascii() and told.isdecimal() and int(told[:9]) >= 1 and len(told) < 10):
        raise refuse("activation_out_of_order", f"{ACTIVATION} is {told!r:.40}, and not a count from 1")
    return int(told)
