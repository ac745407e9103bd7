"""Run a server until it is told to stop, and then end it in order."""

from __future__ import annotations

import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio
import uvicorn
from starlette.applications import Starlette

from swe_sdk.errors import InputError
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.registry import get_provider
from swe_sdk.server.app import create_app
from swe_sdk.server.service import Service
from swe_sdk.server.settings import ServerSettings

BACKLOG = 2048
"""Connections that may wait to be accepted."""
_CLOSE_CAP_S = 60.0
_LAST_ANSWERS_S = 30
"""For clients to take the answers that are on their way."""


class _Server(uvicorn.Server):
    """One whose signals are ours to handle: uvicorn would cut off what a second one finds under way."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    settings: ServerSettings,
    tasks: TaskSet,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    on_ready: Callable[[str, str], None] = lambda url, provider: None,
) -> signal.Signals:
    """Serve until SIGTERM or SIGINT, and return which it was; must run in the main thread.

    The first signal drains: posts that are being answered get their verdicts, new ones are refused with 503. A second
    one, or the end of ``drain_s`` seconds, gives up what is under way, which is answered with masks. ``on_ready`` gets
    the server's URL, with the port that port 0 has come to, and the name of its provider.

    Raises ``ProviderUnavailable``, or ``InputError`` for an address that cannot be had.
    """
    with listen_at(host, port) as listener:
        provider = await get_provider(settings.provider)
        service, url = Service(settings, tasks, provider), url_of(listener)
        try:
            return await serve_until_told(create_app(service), service, listener, lambda: on_ready(url, provider.name))
        finally:
            with to_the_end():
                await provider.aclose()


@contextmanager
def to_the_end() -> Iterator[None]:
    """Around what must be cleaned up: further signals change nothing, for the server was told to stop already."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT), anyio.move_on_after(_CLOSE_CAP_S, shield=True):
        yield


class Drains(Protocol):
    """A server that can be told to stop."""

    async def drain(self, *, stop: anyio.Event) -> None:
        """Take nothing new, and finish what was begun; give the rest up when ``stop`` is set."""


async def serve_until_told(
    app: Starlette, drains: Drains, listener: socket.socket, on_ready: Callable[[], None]
) -> signal.Signals:
    """Serve an application until SIGTERM or SIGINT, drain it, and return which it was; in the main thread."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # what listens in a box is passed on to its caller, who may not say that he is another
        lifespan="on",
        backlog=BACKLOG,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
    )
    server = _Server(config)
    failure: Exception | None = None
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            while not server.started:
                await anyio.sleep(0.01)
            try:
                on_ready()
                first = await anext(signals)
                await drained(drains, signals)
            except Exception as error:  # noqa: BLE001  raised below, once the server has ended in order
                failure = error
            server.should_exit = True
    if failure is not None:
        raise failure
    return first


async def drained(drains: Drains, signals: AsyncIterator[signal.Signals]) -> None:
    """Drain a server that was told to stop; the next signal gives up what is left."""
    stop = anyio.Event()

    async def stop_at_the_second() -> None:
        await anext(signals)
        stop.set()

    async with anyio.create_task_group() as group:
        group.start_soon(stop_at_the_second)
        await drains.drain(stop=stop)
        group.cancel_scope.cancel()


def listen_at(host: str, port: int) -> socket.socket:
    """A socket bound there; ``InputError`` for an address that cannot be had."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise InputError(f"cannot listen at {host}:{port}: {error}", remedy="choose another address") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise InputError(f"cannot listen at {host}:{port}: {error.strerror}", remedy="choose another port") from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a socket is reached from this machine."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
