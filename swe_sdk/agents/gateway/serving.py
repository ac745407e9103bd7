"""HTTP on sockets that we are given, in the loop that runs already.

``uvicorn.Server`` wakes ten times a second for each server and takes over the signals of the process. A gateway has a
socket for every box, so only the protocol of uvicorn is used here, which needs neither.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from swe_sdk.agents.gateway.exchange import ClientGone

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

_LOG = logging.getLogger("swe_sdk.http")
_LOG.setLevel(logging.ERROR)  # that a program in a box speaks no HTTP is no news
_KEEP_ALIVE_S = 24 * 3600
"""Idle connections are the client's to close: one that we closed might carry its next request at that very moment."""
_BACKLOG = 1024
_END_CAP_S = 5.0


class HttpService:
    """An ASGI application that can be served on any number of listening sockets."""

    def __init__(self, app: ASGI3Application) -> None:
        self._config = Config(
            _until_the_end(app), lifespan="off", ws="none", interface="asgi3", log_config=None, proxy_headers=False
        )
        self._config.timeout_keep_alive = _KEEP_ALIVE_S
        self._config.load()

    @asynccontextmanager
    async def serve(
        self, listener: socket.socket, *, label: Any = None, max_connections: int | None = None
    ) -> AsyncIterator[None]:
        """Serve ``listener`` while the block runs, and close it; what is under way then is broken off.

        The application finds ``label`` in ``scope["state"]["label"]``. Connections beyond ``max_connections`` are
        closed at once.
        """
        state = ServerState()
        listener.setblocking(False)
        # anyio serves streams and not protocols; it runs on asyncio here, whose call this is
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._factory(state, label, max_connections), sock=listener, backlog=_BACKLOG)
        try:
            yield
        finally:
            server.close()
            await _end(state)

    def _factory(self, state: ServerState, label: Any, limit: int | None) -> Callable[[], asyncio.Protocol]:
        return lambda: _Connection(self._config, state, {"label": label}, limit)


def _until_the_end(app: ASGI3Application) -> ASGI3Application:
    """``app``: that a client has gone, or that the service ends, is no failure of it, and not for the log."""

    async def run(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        with suppress(asyncio.CancelledError, ClientGone):  # nobody is above: the protocol has made a task of this
            await app(scope, receive, send)

    return run


class _Connection(H11Protocol):
    """One connection; the application finds it in its state, to be able to break it."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], limit: int | None) -> None:
        super().__init__(config, server_state, {**app_state, "connection": self})
        self._limit = limit
        self.logger = _LOG
        self.access_log = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Send small pieces at once: asyncio sees to that only where the listener names its protocol."""
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        if self._limit is not None and len(self.connections) > self._limit:
            transport.abort()


async def _end(state: ServerState) -> None:
    """Break all connections, and wait until the application has noticed."""
    for connection in list(state.connections):
        if connection.transport is not None:
            connection.transport.abort()
    for task in list(state.tasks):
        task.cancel()
    with anyio.move_on_after(_END_CAP_S, shield=True):
        while state.tasks:
            await anyio.sleep(0.005)


def listen_on(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening socket; port 0 = any free one."""
    return socket.create_server((host, port), backlog=_BACKLOG)
