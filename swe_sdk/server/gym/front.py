"""What every server of an episode has: who may post, how much at once, its health, and errors of one shape."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

import swe_sdk
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.server.admission import ServerAdmission
from swe_sdk.server.answering import Desk
from swe_sdk.server.control.app import control_routes
from swe_sdk.server.door import Door
from swe_sdk.server.problems import on_defect, on_http_exception
from swe_sdk.server.settings import ServerSettings


class Lifespan(Protocol):
    """Around the life of an application."""

    def __call__(self, app: Starlette, /) -> AbstractAsyncContextManager[None]:
        """Everything that must be there while it serves."""


class Front(Door):
    """The desk of a server without a verifier."""

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings, ServerAdmission(settings))

    async def drain(self, *, stop: anyio.Event) -> None:
        """Take nothing new, and finish what was begun: for ``drain_s`` seconds, or until ``stop`` is set."""
        self.is_draining = True
        await while_patient(self.admission.idle.wait, self.settings.drain_s, stop)

    def health(self, kind: str, **told: Any) -> dict[str, Any]:
        """How it is just now."""
        return {
            "status": "draining" if self.is_draining else "ok",
            "kind": kind,
            "version": swe_sdk.__version__,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "posts": self.admission.posts,
            **told,
        }


def health_response(told: dict[str, Any]) -> Response:
    """200 while posts are taken, 503 once the server was told to stop."""
    return JSONResponse(told, 200 if told["status"] == "ok" else 503)


def application(
    routes: Sequence[BaseRoute], lifespan: Lifespan, participant: Any, checkpoints: CheckpointSettings
) -> Starlette:
    """The ASGI application of a server, with the control routes of its participant where checkpoints are enabled."""
    app = Starlette(
        routes=[*routes, *control_routes(participant, checkpoints)],
        exception_handlers={HTTPException: on_http_exception, Exception: on_defect},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # it would send bodies to wherever the header Host says
    return app


def openapi_route(document: dict[str, Any]) -> Route:
    """``GET /openapi.json``."""

    async def openapi(request: Request) -> Response:
        return JSONResponse(document)

    return Route("/openapi.json", openapi, methods=["GET"])


class StillOpen:
    """A desk that goes on serving what was begun before its server was told to stop."""

    def __init__(self, desk: Desk) -> None:
        self.settings = desk.settings
        self.admission = desk.admission
        self.readers = desk.readers
        self.require_token = desk.require_token

    def require_open(self) -> None:
        """It is."""


async def while_patient(done: Callable[[], Awaitable[object]], seconds: float, stop: anyio.Event) -> bool:
    """Wait until something is done, for so many seconds, or until ``stop`` is set; whether it is done."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_at, stop, tasks.cancel_scope)
        with anyio.move_on_after(seconds):
            await done()
            tasks.cancel_scope.cancel()
            return True
        tasks.cancel_scope.cancel()
    return False


async def _cancel_at(stop: anyio.Event, scope: anyio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()
