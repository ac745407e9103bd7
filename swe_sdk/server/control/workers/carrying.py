"""A request that is carried to another worker, and its answer back, piece by piece; it ends with its client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from swe_sdk.server.control.workers.member import Member
from swe_sdk.server.wire import ErrorAnswer, error_response

FORWARDED = "x-ng-forwarded"
_OF_ONE_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade", b"proxy-connection"})
_OF_CHUNKS = _OF_ONE_HOP | {b"content-length"}
"""It does not count beside ``transfer-encoding``, whatever it says."""
_NO_TIMEOUT = httpx.Timeout(None, connect=10.0)
"""How long a request may take is for whoever asks to say."""


def open_carrying_client() -> httpx.AsyncClient:
    """A client for a :class:`Carrier`: of this machine's workers, as many at once as there are requests.

    It keeps no cookies: those of one session would come along with the requests of all others.
    """
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx.AsyncClient(verify=False, limits=httpx.Limits(), trust_env=False, cookies=cookies)


class Carrier:
    """Of one worker; ``client`` reaches the others."""

    def __init__(self, member: Member, client: httpx.AsyncClient) -> None:
        self.member = member
        self._client = client
        self._carried = 0
        self._idle = anyio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        await self._idle.wait()

    async def carry(self, owner: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Have ``owner`` answer a request. 502 (``worker_lost``) where it goes away before it does; an answer that it
        has begun is broken off. Where the client leaves, the request ends at the owner as well."""
        chunks, taken = anyio.create_memory_object_stream[bytes]()
        with self._counted(), taken:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_listen, receive, chunks, tasks.cancel_scope)
                await self._exchange(self._copy_of(scope, owner, taken), owner, scope, send)
                tasks.cancel_scope.cancel()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if not self._carried:
            self._idle = anyio.Event()
        self._carried += 1
        try:
            yield
        finally:
            self._carried -= 1
            if not self._carried:
                self._idle.set()

    def _copy_of(self, scope: Scope, owner: str, body: MemoryObjectReceiveStream[bytes]) -> httpx.Request:
        headers = Headers(scope=scope)
        is_chunked = "transfer-encoding" in headers
        has_body = is_chunked or "content-length" in headers
        if not has_body:
            body.close()
        address = self.member.addresses.get(owner, "http://127.0.0.1:0")  # one that has just gone cannot be reached
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        return self._client.build_request(
            scope["method"],
            address,
            headers=[*_passed_on(headers.raw, _OF_CHUNKS if is_chunked else _OF_ONE_HOP), (FORWARDED.encode(), b"1")],
            content=body if has_body else None,
            timeout=_NO_TIMEOUT,
            # as it came: what a client of HTTP would make of "..", "#" or "//" may be of another attempt
            extensions={"target": scope["raw_path"] + query},
        )

    async def _exchange(self, request: httpx.Request, owner: str, scope: Scope, send: Send) -> None:
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            detail = f"worker {owner} went away while it was asked: {error!r}"
            await error_response(ErrorAnswer(502, "worker_lost", detail))(scope, _nothing_more, send)
            return
        try:
            headers = _passed_on(answer.headers.raw)
            await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except httpx.TransportError:
            await _break_off(scope)
        finally:
            with anyio.CancelScope(shield=True):
                await answer.aclose()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _listen(receive: Receive, chunks: MemoryObjectSendStream[bytes], scope: anyio.CancelScope) -> None:
    """Pass the body on, and end everything where the client leaves."""
    with suppress(anyio.BrokenResourceError):  # nobody wants the rest
        async with chunks:
            if not await _pass_on(receive, chunks):
                scope.cancel()  # first, or what has come so far would pass for all of it
                return
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _pass_on(receive: Receive, chunks: MemoryObjectSendStream[bytes]) -> bool:
    """The body, of which nothing is kept; whether the client was there to its end."""
    is_more = True
    while is_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return False
        is_more = message.get("more_body", False)
        await chunks.send(message.get("body", b""))
    return True


async def _break_off(scope: Scope) -> None:
    """Half of an answer must not pass for a whole one: the client's connection ends, and with it what waits here."""
    connection = scope.get("state", {}).get("connection")
    if connection is None:
        raise ConnectionError("a worker went away in the middle of its answer")
    connection.transport.abort()
    await anyio.sleep_forever()


async def _nothing_more() -> Any:
    return {"type": "http.disconnect"}


def _passed_on(
    headers: Iterable[tuple[bytes, bytes]], left_out: frozenset[bytes] = _OF_ONE_HOP
) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in left_out]


def is_forwarded(scope: Scope) -> bool:
    """Whether it was sent here by another worker: never on again, whatever tables say."""
    return any(name == FORWARDED.encode() for name, _value in scope["headers"])
