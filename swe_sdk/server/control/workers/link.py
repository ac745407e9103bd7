"""Requests, replies and messages between a worker and its coordinator, in both directions over one stream.

A frame is four bytes of length, most significant first, and so many bytes of JSON.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, ByteStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.waiting import Background
from swe_sdk.errors import CheckpointError
from swe_sdk.server.wire import as_refusal, detail_of

MAX_FRAME_BYTES = 1 << 30
_OUTBOX = 100_000
"""Frames that may wait for a slow reader; beyond that it is given up."""
_ENDS = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    ValueError,
    RecursionError,
)
"""Of a stream, or of what can be understood of it."""
Asked = Callable[[str, Any], Awaitable[Any]]
Told = Callable[[str, Any], None]
_log = logging.getLogger("swe_sdk.checkpoint")


def framed(value: Any) -> bytes:
    """One frame; ``checkpoint_error`` where it is too large."""
    data = json.dumps(value).encode()
    if len(data) > MAX_FRAME_BYTES:
        raise refuse("checkpoint_error", f"a message of {len(data)} bytes is larger than {MAX_FRAME_BYTES}")
    return len(data).to_bytes(4, "big") + data


async def frames(stream: ByteReceiveStream) -> AsyncIterator[Any]:
    """What comes in, to the end of the stream; a frame that is none, or is cut off, ends it as well."""
    buffered = BufferedByteReceiveStream(stream)
    try:
        while True:
            size = int.from_bytes(await buffered.receive_exactly(4), "big")
            if size > MAX_FRAME_BYTES:
                return
            yield json.loads(await buffered.receive_exactly(size))
    except _ENDS:
        return


class Link:
    """One end. Messages are handled in the order in which they were sent; requests at once, and side by side."""

    def __init__(self, stream: ByteStream, *, asked: Asked, told: Told) -> None:
        self._stream = stream
        self._asked = asked
        self._told = told
        self._numbers = count(1)
        self._awaited: dict[int, Background[Any]] = {}
        self._send, self._outbox = anyio.create_memory_object_stream[bytes](_OUTBOX)
        self._scope = anyio.CancelScope()
        self._is_over = False

    async def run(self) -> None:
        """Until the other side is gone or not understood, or :meth:`close`; then what was asked fails."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._write)
                    await self._read(tasks)
                    tasks.cancel_scope.cancel()
        finally:
            self.close()
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)

    def close(self) -> None:
        """Nothing is sent or taken any more."""
        self._is_over = True
        self._scope.cancel()
        self._send.close()
        self._outbox.close()
        for waiting in self._awaited.values():
            waiting.fail(_gone())
        self._awaited.clear()

    def tell(self, name: str, body: Any = None) -> None:
        """Send a message; nothing comes back, and to nobody it goes nowhere."""
        self._post({"tell": name, "body": body})

    async def ask(self, name: str, body: Any = None) -> Any:
        """Send a request and wait for its reply; raises the refusal that comes instead.

        ``checkpoint_coordinator_unavailable`` where the other side is gone, or goes.
        """
        if self._is_over:
            raise _gone()
        number, waiting = next(self._numbers), Background[Any]()
        self._awaited[number] = waiting
        try:
            self._post({"ask": number, "name": name, "body": body})
            return (await waiting.result())[0]
        finally:
            self._awaited.pop(number, None)

    def _post(self, value: Any) -> None:
        if self._is_over:
            return
        data = framed(value)
        try:
            self._send.send_nowait(data)
        except (anyio.WouldBlock, anyio.BrokenResourceError):
            self.close()

    async def _write(self) -> None:
        try:
            async for data in self._outbox:
                await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the reading side hears of the end as well

    async def _read(self, tasks: TaskGroup) -> None:
        async for frame in frames(self._stream):
            try:
                self._handle(frame, tasks)
            except Exception:  # noqa: BLE001  whatever it is, the others of this process go on
                _log.exception("a connection of a worker and its coordinator is closed: what came cannot be handled")
                return

    def _handle(self, frame: Any, tasks: TaskGroup) -> None:
        if "tell" in frame:
            self._told(frame["tell"], frame["body"])
        elif "ask" in frame:
            tasks.start_soon(self._reply, frame["ask"], frame["name"], frame["body"])
        else:
            self._take(frame)

    def _take(self, frame: Any) -> None:
        waiting = self._awaited.get(frame["answer"])
        if waiting is None:
            return
        if "error" in frame:
            waiting.fail(CheckpointError(frame["error"]["code"], frame["error"]["detail"]))
        else:
            waiting.succeed((frame["body"],))

    async def _reply(self, number: int, name: str, body: Any) -> None:
        try:
            self._post({"answer": number, "body": await self._asked(name, body)})
        except Exception as error:  # noqa: BLE001  whatever it is, the other side waits for an answer
            told = as_refusal(error)
            self._post({"answer": number, "error": {"code": told.code, "detail": detail_of(told)}})


def _gone() -> CheckpointError:
    return refuse("checkpoint_coordinator_unavailable", "the connection of a worker and its coordinator is gone")
