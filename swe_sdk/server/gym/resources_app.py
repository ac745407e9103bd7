"""The resources server as an application."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.routing import Route

from swe_sdk.alongside import alongside
from swe_sdk.checkpoint.participants.resources import ResourcesParticipant
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.server.app import reaper_of
from swe_sdk.server.gets import Gets
from swe_sdk.server.gym.boxes import SessionBoxes
from swe_sdk.server.gym.front import application, openapi_route, while_patient
from swe_sdk.server.gym.judging import Judge
from swe_sdk.server.gym.loans import Loans
from swe_sdk.server.gym.mcp import Elsewhere, McpEndpoint
from swe_sdk.server.gym.openapi import resources_document
from swe_sdk.server.gym.resources import ResourcesPosts
from swe_sdk.server.gym.sessions import Sessions
from swe_sdk.server.gym.settings import ResourcesSettings
from swe_sdk.server.posts import Posts
from swe_sdk.server.service import Service
from swe_sdk.server.settings import ServerSettings

_CLOSE_CAP_S = 60.0


class ResourcesServer:
    """Everything that one resources server has; ``sessions.url`` is where others reach it, and must be set before it
    serves. ``elsewhere``: as one of several workers."""

    def __init__(
        self,
        settings: ServerSettings,
        tasks: TaskSet,
        provider: SandboxProvider,
        *,
        sessions: ResourcesSettings | None = None,
        checkpoints: CheckpointSettings | None = None,
        name: str = "resources",
        elsewhere: Elsewhere | None = None,
    ) -> None:
        told = sessions or ResourcesSettings()
        self.checkpoints = checkpoints or CheckpointSettings()
        self.service = Service(settings, tasks, provider)
        state_dir = told.state_dir or self.checkpoints.state_dir
        self._folder: AbstractContextManager[Any] = nullcontext()
        if state_dir is None:
            self._folder = made = tempfile.TemporaryDirectory(prefix="swe_sdk-resources-")
            state_dir = Path(made.name)
        boxes = SessionBoxes(provider, state_dir=state_dir)
        self.participant = ResourcesParticipant(name, hooks=boxes, verify="replay", settings=self.checkpoints)
        self.sessions = Sessions(
            provider, self.participant, boxes, told, build_timeout_s=settings.build_timeout_s, name=name
        )
        self._boxes = boxes
        self._elsewhere = elsewhere
        judge = Judge(settings, provider, self.service.verifier, close_timeout_s=told.close_timeout_s)
        self._posts = ResourcesPosts(self.service, self.sessions, judge)
        self._loans = Loans(self.sessions, self.service, transfer_mib=told.transfer_mib)

    async def drain(self, *, stop: anyio.Event) -> None:
        """Make no more sessions, and let those that there are come to their verdicts; then close what is left."""
        self.service.is_draining = True
        settings = self.service.settings
        if not await while_patient(self.sessions.until_none, settings.drain_s, stop):
            stop.set()
        with anyio.move_on_after(_CLOSE_CAP_S, shield=True):
            await self.sessions.aclose()
        await self.service.drain(stop=stop)

    def app(self) -> Starlette:
        """To be run by any ASGI server, in one process."""
        gets, plain = Gets(self.service), Posts(self.service)
        routes = [
            Route("/health", gets.health, methods=["GET"]),
            Route("/reverify_mode", gets.reverify_mode, methods=["GET"]),
            openapi_route(resources_document(self.service.settings)),
            Route("/grade", plain.grade, methods=["POST"]),
            *self._posts.routes(),
            *self._loans.routes(),
            McpEndpoint(self.sessions, self.service, elsewhere=self._elsewhere).route(),
        ]
        return application(routes, self._lifespan, self.participant, self.checkpoints)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async with self.running(), self.participant:
            yield

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All that goes on while it serves, beside its participant, which is opened within the block."""
        with self._folder:
            async with reaper_of(self.service):
                try:
                    async with alongside() as tasks:
                        tasks.start_soon(self.sessions.sweep)
                        yield
                finally:
                    with anyio.move_on_after(_CLOSE_CAP_S, shield=True):
                        await self.sessions.aclose()
                        await self._boxes.aclose()
