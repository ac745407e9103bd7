"""The control routes of one participant, as an ASGI application or as routes of another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from swe_sdk.agents.gateway.serving import HttpService, listen_on
from swe_sdk.checkpoint.participant import PREFIX, REQUESTS, Participant
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.server.control.endpoints import Endpoints
from swe_sdk.server.control.openapi import document
from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.wire import ErrorAnswer, error_response


def control_routes(
    participant: Participant, settings: CheckpointSettings, limits: ControlLimits | None = None
) -> list[Route]:
    """GET ``status`` and POST of all operations below ``/ng-control/v1/checkpoint``; none where they are not enabled.

    ``participant`` is any :class:`~swe_sdk.checkpoint.participant.Participant`; one of this process must be open.
    """
    if not settings.enabled:
        return []
    assert settings.control_auth_token is not None  # the settings require it
    endpoints = Endpoints(participant, settings.control_auth_token, limits or ControlLimits())
    posts = [Route(f"{PREFIX}/{name}", endpoints.of(name), methods=["POST"]) for name in REQUESTS]
    return [Route(f"{PREFIX}/status", endpoints.status, methods=["GET"]), *posts]


def control_app(
    participant: Participant, settings: CheckpointSettings, limits: ControlLimits | None = None
) -> Starlette:
    """An application of nothing but the control routes, and ``/openapi.json`` about them."""
    app = Starlette(
        routes=[*control_routes(participant, settings, limits), Route("/openapi.json", _openapi, methods=["GET"])],
        exception_handlers={HTTPException: _on_http_exception, Exception: _on_defect},
    )
    app.router.redirect_slashes = False  # it would send tokens to wherever the header Host says
    return app


@asynccontextmanager
async def serve_control(
    participant: Participant,
    settings: CheckpointSettings,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    limits: ControlLimits | None = None,
) -> AsyncIterator[str]:
    """Serve the control routes of a participant from this event loop while the block runs; yields the base URL.

    Port 0 is any free one. Calls that are under way at the end of the block are broken off.
    """
    listener = listen_on(host, port)
    url = f"http://{host}:{listener.getsockname()[1]}"
    app: Any = control_app(participant, settings, limits)  # uvicorn names the types of ASGI in other words
    async with HttpService(app).serve(listener):
        yield url


async def _openapi(request: Request) -> Response:
    return JSONResponse(document())


async def _on_http_exception(request: Request, error: Exception) -> Response:
    """Paths and methods that there are not."""
    assert isinstance(error, HTTPException)
    code = "method_not_allowed" if error.status_code == 405 else "not_found"
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return error_response(ErrorAnswer(error.status_code, code, detail), error.headers)


async def _on_defect(request: Request, error: Exception) -> Response:
    """Whatever else was raised; the server logs it."""
    return error_response(ErrorAnswer(500, "internal_error", f"{type(error).__name__} while answering"))
