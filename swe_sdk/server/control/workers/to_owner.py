"""Requests of a session go to the worker that has it, whichever worker they come to."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable

import anyio
import httpx
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swe_sdk.server.control.workers.member import Member
from swe_sdk.server.wire import ErrorAnswer, error_response

COOKIE = "ng-worker-"
"""With the name of the server: names the worker that answered first, and comes back with every request of the same
session. Cookies of a host are sent to all of its ports."""
FORWARDED = "x-ng-forwarded"
_OF_ONE_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"proxy-connection"})
HEARSAY_S = 0.5
"""Within which every worker has heard of a new one."""
_NO_TIMEOUT = httpx.Timeout(None, connect=10.0)
"""How long a request may take is for whoever asks to say."""


class ToOwner:
    """Wraps the application of a worker; ``client`` reaches the other workers.

    A request whose cookie names another live worker, by its own name or by that of a former owner of restored sessions,
    is sent on to it. Where what it names is gone, the answer is 410 (``session_lost``): whoever has such a cookie
    counts on state that nobody has, and must start over without it.
    """

    def __init__(self, app: ASGIApp, member: Member, client: httpx.AsyncClient, *, server: str) -> None:
        self._app = app
        self._cookie = COOKIE + hashlib.sha256(server.encode()).hexdigest()[:12]
        self._member = member
        self._client = client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        named = Request(scope).cookies.get(self._cookie) if scope["type"] == "http" else None
        owner = self._member.name if named is None or _is_forwarded(scope) else await self._owner_of(named)
        if named is None or owner == self._member.name:
            await self._app(scope, receive, send if named == owner else self._naming(send))
            return
        response = _lost(named) if owner is None else await self._sent_on(Request(scope, receive), owner)
        await response(scope, receive, send)

    async def _owner_of(self, named: str) -> str | None:
        """One that nobody knows may be so new that we have not heard of it yet."""
        with anyio.move_on_after(HEARSAY_S):
            while (owner := self._member.owner_of(named)) is None:
                await anyio.sleep(HEARSAY_S / 20)
            return owner
        return None

    def _naming(self, send: Send) -> Send:
        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = f"{self._cookie}={self._member.name}; Path=/; HttpOnly"
                MutableHeaders(scope=message).append("set-cookie", cookie)
            await send(message)

        return named

    async def _sent_on(self, request: Request, owner: str) -> Response:
        if not request.scope["raw_path"].startswith(b"/"):  # it would become a part of the worker's address
            return error_response(ErrorAnswer(404, "not_found", "the target of the request is no path"))
        try:
            answer = await self._client.send(self._copy_of(request, owner), stream=True)
        except (httpx.TransportError, ClientDisconnect) as error:
            detail = f"worker {owner} went away while it was asked: {error!r}"
            return error_response(ErrorAnswer(502, "worker_lost", detail))
        response = StreamingResponse(_rest(answer), answer.status_code)
        response.raw_headers = _passed_on(answer.headers.raw)
        return response

    def _copy_of(self, request: Request, owner: str) -> httpx.Request:
        path, query = request.scope["raw_path"].decode("latin-1"), request.scope["query_string"].decode("latin-1")
        has_body = "content-length" in request.headers or "transfer-encoding" in request.headers
        return self._client.build_request(
            request.method,
            f"{self._member.addresses[owner]}{path}" + (f"?{query}" if query else ""),
            headers=[*_passed_on(request.headers.raw), (FORWARDED.encode(), b"1")],
            content=request.stream() if has_body else None,
            timeout=_NO_TIMEOUT,
        )


def _passed_on(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in _OF_ONE_HOP]


async def _rest(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()


def _is_forwarded(scope: Scope) -> bool:
    """It was sent here by another worker: never on again, whatever tables say."""
    return any(name == FORWARDED.encode() for name, _value in scope["headers"])


def _lost(named: str) -> Response:
    detail = f"worker {named}, and what it had, are gone (start over, without its cookie)"
    return error_response(ErrorAnswer(410, "session_lost", detail))
