"""Requests of a session go to the worker that has it, whichever worker they come to: by a cookie."""

from __future__ import annotations

import hashlib

import anyio
import httpx
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from swe_sdk.server.control.workers.carrying import Carrier, is_forwarded
from swe_sdk.server.control.workers.member import Member
from swe_sdk.server.wire import ErrorAnswer, error_response

COOKIE = "ng-worker-"
"""With the name of the server: names the worker that answered first, and comes back with every request of the same
session. Cookies of a host are sent to all of its ports."""
HEARSAY_S = 0.5
"""Within which every worker has heard of a new one."""


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
        self._carrier = Carrier(member, client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        named = Request(scope).cookies.get(self._cookie) if scope["type"] == "http" else None
        owner = self._member.name if named is None or is_forwarded(scope) else await self._owner_of(named)
        if named is None or owner == self._member.name:
            await self._app(scope, receive, send if named == owner else self._naming(send))
        elif owner is None:
            await _lost(named)(scope, receive, send)
        else:
            await self._carrier.carry(owner, scope, receive, send)

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


def _lost(named: str) -> Response:
    detail = f"worker {named}, and what it had, are gone (start over, without its cookie)"
    return error_response(ErrorAnswer(410, "session_lost", detail))
