"""The environment server as an application: one turn of a single agent, from seed to verdict."""

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

from swe_sdk.server.answering import Work, answered
from swe_sdk.server.bodies import parsed
from swe_sdk.server.gym.attempts import require_same, with_attempts
from swe_sdk.server.gym.contract import EpisodeRequest
from swe_sdk.server.gym.episodes import Episodes
from swe_sdk.server.gym.front import Front, application, health_response, openapi_route
from swe_sdk.server.gym.openapi import environment_document
from swe_sdk.server.gym.peers import Peer
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.validation import validated


class EnvironmentServer:
    """Everything that one environment server has; it closes its peers."""

    def __init__(self, settings: ServerSettings, episodes: Episodes, *peers: Peer) -> None:
        self.front = Front(settings)
        self.episodes = episodes
        self._peers = peers

    async def drain(self, *, stop: anyio.Event) -> None:
        """Finish what was begun."""
        await self.front.drain(stop=stop)

    def app(self) -> Starlette:
        """To be run by any ASGI server, in one process."""
        routes = [
            Route("/health", self.health, methods=["GET"]),
            openapi_route(environment_document(self.front.settings)),
            *with_attempts({"/run": self.run}),
        ]
        participant = self.episodes.participant
        return application(routes, self._lifespan, participant, participant.settings)

    async def health(self, request: Request) -> Response:
        """How it is."""
        return health_response(self.front.health("environment"))

    async def run(self, request: Request) -> Response:
        """A whole episode."""

        def read(body: bytearray) -> Work:
            asked = validated(EpisodeRequest, parsed(body))
            require_same(request, asked.episode_id)
            return partial(self._run, asked)

        return await answered(self.front, request, read)

    async def _run(self, asked: EpisodeRequest) -> dict[str, Any]:
        ran = await self.episodes.run(asked)
        return {
            "episode_id": asked.episode_id.model_dump(),
            "task_id": asked.task.task_id.model_dump(),
            "result": {"verification": ran.verification, "agent_observations": None},
            "failure": None,
        }

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async with self.running(), self.episodes.participant:
            yield

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All that goes on while it serves, beside its participant, which is opened within the block."""
        try:
            yield
        finally:
            for peer in self._peers:
                await peer.aclose()
