"""Answers of bounded size, for an SDK that keeps all of an answer: in a sandbox, any program may be what answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

MOST_BYTES = 64 << 20
"""Of an answer that is no file."""
_FILES, _EVENTS = "/files/download", "/command"
_BETWEEN = b"\n\n"
"""What is between two events."""


class Bounded(httpx.AsyncBaseTransport):
    """Sends by another transport. An answer that is too long breaks off; of what a command tells, each event alone may
    not be too long, and to the length of a file whoever takes it has to see."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx."""
        answer = await self._inner.handle_async_request(request)
        if not (answer.is_success and request.url.path.endswith(_FILES)):
            assert isinstance(answer.stream, httpx.AsyncByteStream)
            by_event = answer.is_success and request.url.path.endswith(_EVENTS)
            answer.stream = _BoundedStream(answer.stream, by_event=by_event)
        return answer

    async def aclose(self) -> None:
        """See httpx."""
        await self._inner.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, *, by_event: bool) -> None:
        self._inner = inner
        self._by_event = by_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length, before = 0, b""
        async for piece in self._inner:
            seen = before + piece
            end = seen.rfind(_BETWEEN) if self._by_event else -1
            length = length + len(piece) if end < 0 else len(seen) - end
            before = piece[-1:]
            if length > MOST_BYTES:
                raise httpx.ReadError(f"more than {MOST_BYTES:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
