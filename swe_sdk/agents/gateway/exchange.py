"""One HTTP request and its reply, as the gateway handles them: pieces of bytes, never whole bodies."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import anyio

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope
    from uvicorn.protocols.http.h11_impl import H11Protocol

Headers = list[tuple[bytes, bytes]]


class BodyTooLarge(Exception):
    """A request's body goes beyond the limit."""


class ClientGone(Exception):
    """The client has closed its connection. An application need not catch it."""


class Exchange:
    """The two halves of an exchange, on an ASGI connection of :mod:`swe_sdk.agents.gateway.serving`."""

    def __init__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        self.scope = cast("HTTPScope", scope)
        self._receive = receive
        self._send = send
        self.has_begun = False
        """Whether the client has been sent a status line."""

    @property
    def method(self) -> str:
        """Such as "POST"."""
        return self.scope["method"]

    @property
    def path(self) -> str:
        """Without the query, unquoted."""
        return self.scope["path"]

    @property
    def _transport(self) -> asyncio.Transport:
        connection: H11Protocol = self.scope["state"]["connection"]
        return connection.transport

    @property
    def label(self) -> Any:
        """That of the listener which the request came through."""
        return self.scope["state"]["label"]

    def header(self, name: str) -> str | None:
        """The first header of that name."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == wanted), None)

    @property
    def headers(self) -> Headers:
        """All headers, their names in lower case."""
        return list(self.scope["headers"])

    # -- request ----------------------------------------------------------------------------------------------------

    async def pieces(self, limit_bytes: int) -> AsyncIterator[bytes]:
        """The body as it comes; ``BodyTooLarge`` or ``ClientGone``."""
        size, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            size += len(message["body"])
            if size > limit_bytes:
                raise BodyTooLarge
            more = message["more_body"]
            if message["body"]:
                yield message["body"]

    async def body(self, limit_bytes: int) -> bytes:
        """The body; ``BodyTooLarge`` or ``ClientGone``."""
        return b"".join([piece async for piece in self.pieces(limit_bytes)])

    async def gone(self) -> None:
        """Return once the client has closed its connection; call it when the body has been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # -- reply ------------------------------------------------------------------------------------------------------

    async def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the status line and headers."""
        self.has_begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(self, data: bytes) -> None:
        """Send a piece of the body, and wait while the client is slow to take it. Raises ``ClientGone``."""
        if self._transport.is_closing():
            raise ClientGone
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """End the body."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """A whole reply of JSON."""
        given = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        await self.begin(status, [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()])
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def reply_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        """A whole reply of plain data."""
        await self.reply(status, json.dumps(value).encode(), headers)

    async def cut(self) -> None:
        """Break the connection: the client sees that its reply is not complete."""
        self._transport.abort()
        await anyio.sleep(0)  # the loop tells the protocol, which then takes a missing reply for what it is
