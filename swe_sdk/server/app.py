"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swe_sdk.errors import PrerequisiteError
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.reaper import SupportsReaping, reap, reap_every
from swe_sdk.server.gets import Gets
from swe_sdk.server.posts import Posts
from swe_sdk.server.problems import on_defect, on_http_exception
from swe_sdk.server.service import Service

_LAST_REAP_CAP_S = 30.0
Endpoint = Callable[[Request], Awaitable[Response]]


def create_app(service: Service) -> Starlette:
    """The application of a service, to be run by any ASGI server, in one process.

    Its lifespan keeps the reaper: what dead programs have left is removed from its beginning to its end, and at the end
    what could not be removed in its time, as while an engine was away.
    """

    app = Starlette(
        routes=[
            *(_route(service, path, endpoint, "GET") for path, endpoint in _gets(service).items()),
            *(_route(service, path, endpoint, "POST") for path, endpoint in _posts(service).items()),
        ],
        exception_handlers={HTTPException: on_http_exception, Exception: on_defect},
        lifespan=_lifespan(service),
    )
    app.router.redirect_slashes = False  # it would send bodies to wherever the header Host says
    return app


def _gets(service: Service) -> dict[str, Endpoint]:
    gets = Gets(service)
    metrics: dict[str, Endpoint] = {} if service.metrics is None else {"/metrics": gets.metrics}
    return {"/health": gets.health, "/openapi.json": gets.openapi, "/reverify_mode": gets.reverify_mode, **metrics}


def _posts(service: Service) -> dict[str, Endpoint]:
    posts = Posts(service)
    sessions = {"/seed_session": posts.session, "/close_session": posts.session}
    return {"/verify": posts.verify, "/grade": posts.grade, **sessions}


def _route(service: Service, path: str, endpoint: Endpoint, method: str) -> Route:
    async def counted(request: Request) -> Response:
        response = await endpoint(request)
        service.watcher.responded(path, response.status_code)
        return response

    return Route(path, counted, methods=[method])


def _lifespan(service: Service) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    return lambda app: reaper_of(service)


@asynccontextmanager
async def reaper_of(service: Service) -> AsyncIterator[None]:
    """While the block runs, what dead programs have left with the service's provider is removed; and at its end."""
    book, providers = LeaseBook(), _reapable(service.provider)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reap_every, service.settings.reap_every_s, book, providers)
        yield
        tasks.cancel_scope.cancel()
    # without leases that can be read there is nothing to do, and reap_every has said so
    with anyio.move_on_after(_LAST_REAP_CAP_S, shield=True), suppress(PrerequisiteError):
        await reap(book, providers, only=service.provider.name)


def _reapable(provider: SandboxProvider) -> list[SupportsReaping]:
    return [provider] if isinstance(provider, SupportsReaping) else []
