"""Answers that go on while a sandbox works: the output of a command, a file, a listener. Each ends with its client."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swe_sdk.errors import SweError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import Box, OnOutput, Stream
from swe_sdk.server.gym.fetching import fetched
from swe_sdk.server.gym.loan_messages import ExecLine, ExecOrder, LoanError, line_of
from swe_sdk.server.wire import error_response

_LINES = "application/x-ndjson"
_BACKLOG_BYTES = 64 << 20
"""Of output that the client has not taken yet; beyond it pieces are left out of the stream, not of the result."""
_CHUNK_BYTES = 1 << 18


class ExecStream(Response):
    """Runs a command; a client that leaves takes it along."""

    def __init__(self, box: Box, order: ExecOrder) -> None:
        super().__init__(media_type=_LINES)
        self._box = box
        self._order = order
        self._backlog = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        lines, taken = anyio.create_memory_object_stream[bytes](math.inf)
        async with while_connected(receive):
            await _begin(send, _LINES)
            async with taken, anyio.create_task_group() as tasks, lines:
                tasks.start_soon(self._pour, taken, send)

                def tell(stream: Stream, data: bytes) -> None:
                    line = line_of(ExecLine(stream=stream, data=data))
                    if self._backlog + len(line) <= _BACKLOG_BYTES:
                        self._backlog += len(line)
                        lines.send_nowait(line)

                await lines.send(line_of(await self._run(tell if self._order.stream else None)))
            await _end(send)

    async def _run(self, on_output: OnOutput | None) -> ExecLine:
        try:
            return ExecLine(result=await self._exec(on_output))
        except SweError as error:
            return ExecLine(error=LoanError.of(error))

    async def _exec(self, on_output: OnOutput | None) -> ExecResult:
        order = self._order
        return await self._box.exec(
            order.command,
            cwd=order.cwd,
            env=order.env,
            user=order.user,
            stdin=order.stdin,
            timeout_s=order.timeout_s,
            output_bytes=order.output_bytes,
            merge_stderr=order.merge_stderr,
            on_output=on_output,
        )

    async def _pour(self, lines: AsyncIterator[bytes], send: Send) -> None:
        async for line in lines:
            await send({"type": "http.response.body", "body": line, "more_body": True})
            self._backlog = max(0, self._backlog - len(line))


class FileStream(Response):
    """A file of the sandbox, of up to ``most_bytes``."""

    def __init__(self, box: Box, path: str, most_bytes: int) -> None:
        super().__init__(media_type="application/octet-stream")
        self._box = box
        self._path = path
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        async with while_connected(receive):
            try:
                async with fetched(self._box, self._path, self._most_bytes) as local:
                    await self._pour(local, send)
            except SweError as error:
                await error_response(LoanError.of(error).answer())(scope, receive, send)

    async def _pour(self, local: Path, send: Send) -> None:
        await _begin(send, "application/octet-stream", local.stat().st_size)
        async with await anyio.open_file(local, "rb") as file:
            while chunk := await file.read(_CHUNK_BYTES):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await _end(send)


class HeldOpen(Response):
    """Says one line, and then lasts until its client leaves: ``work`` gets a function that says it."""

    def __init__(self, work: Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]) -> None:
        super().__init__(media_type=_LINES)
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        is_begun = False

        async def say(line: bytes) -> None:
            nonlocal is_begun
            is_begun = True
            await _begin(send, _LINES)
            await send({"type": "http.response.body", "body": line, "more_body": True})

        async with while_connected(receive):
            try:
                await self._work(say)
            except SweError as error:
                if not is_begun:
                    await error_response(LoanError.of(error).answer())(scope, receive, send)
                    return
            await _end(send)


@asynccontextmanager
async def while_connected(receive: Receive) -> AsyncIterator[None]:
    """A block that is cancelled where the client leaves."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_gone, receive, tasks.cancel_scope)
        yield
        tasks.cancel_scope.cancel()


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _begin(send: Send, media_type: str, size: int | None = None) -> None:
    headers = [(b"content-type", media_type.encode())]
    if size is not None:
        headers.append((b"content-length", str(size).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _end(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})
