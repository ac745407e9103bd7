"""Bodies of requests: bounded while they arrive."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

import anyio
from pydantic_core import from_json
from starlette.requests import Request

from swe_sdk.server.admission import MIB
from swe_sdk.server.problems import Problem

T = TypeVar("T")
_LARGE_NUMBER = re.compile(rb"[0-9]{309}|[eE]\+?[0-9]{3}")
"""What a number beyond all floats looks like; texts may do as well."""
_LINGER_S = 5.0
"""For how long the rest of a refused body is read and thrown away: most clients send all of it before they listen."""


class ClientGone(Exception):
    """Nobody is there any more to be answered."""


class BodyLimits(Protocol):
    """What one body may be."""

    @property
    def body_mib(self) -> float:
        """The largest one."""

    @property
    def body_timeout_s(self) -> float:
        """For it to arrive."""


class Counts(Protocol):
    """Who counts the bytes of all bodies."""

    def add(self, count: int) -> None:
        """Bytes have arrived; may raise where all together are too many."""


class Inbox:
    """What a client sends, and whether it is still there."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.is_complete = False
        """Whether the whole body has been read."""
        self._is_late = False

    async def body(self, slot: Counts, settings: BodyLimits) -> bytearray:
        """All of it; a ``Problem`` where it is too large or too slow, ``TooBusy`` where all bodies are too many."""
        limit = int(settings.body_mib * MIB)
        headers = self._request.headers
        if headers.get("content-encoding", "identity") != "identity":
            raise Problem("unsupported_encoding", "compressed bodies are not taken", remedy="send it as it is")
        if int(headers.get("content-length") or 0) > limit:
            raise _too_large(settings)
        body = bytearray()
        with anyio.move_on_after(settings.body_timeout_s):
            async for chunk in self._chunks():
                if len(body) + len(chunk) > limit:
                    raise _too_large(settings)
                slot.add(len(chunk))
                body += chunk
            return body
        self._is_late = True
        raise Problem("body_timeout", f"the body did not arrive within {settings.body_timeout_s:g} s")

    async def linger(self) -> None:
        """Throw the rest of the body away, for a while, so that the client gets to read the answer.

        A client that waits to be asked for its body, or has had its time, gets the answer at once.
        """
        if "expect" not in self._request.headers and not self._is_late:
            with anyio.move_on_after(_LINGER_S):
                async for _chunk in self._chunks():
                    pass

    async def while_connected(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of ``work()``; cancels it and raises ``ClientGone`` where the client leaves. After the body."""
        result: list[T] = []
        problem: list[Exception] = []

        async def do() -> None:
            try:
                result.append(await work())
            except Exception as error:  # noqa: BLE001 - raised below, and not as a group
                problem.append(error)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(do)
            while (await self._request.receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()
        if problem:
            raise problem[0]
        if not result:
            raise ClientGone
        return result[0]

    async def _chunks(self) -> AsyncIterator[bytes]:
        while not self.is_complete:
            message = await self._request.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            self.is_complete = not message.get("more_body", False)
            yield message.get("body", b"")


def parsed(body: bytearray) -> Any:
    """The JSON value; a ``Problem`` where it is none. NaN and infinities are none, nor is what no text could hold."""
    try:
        value = from_json(body, allow_inf_nan=False)
        if _LARGE_NUMBER.search(body):
            json.dumps(value, allow_nan=False)  # 1e999 is read as infinity, which no answer could hold
        return value
    except ValueError as error:
        raise Problem("bad_json", str(error)) from None


def _too_large(settings: BodyLimits) -> Problem:
    return Problem("body_too_large", f"the body is larger than {settings.body_mib:g} MiB")
