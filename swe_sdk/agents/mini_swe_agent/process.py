"""The process of one episode, and what is said to it: a JSON line for each request, and one for its answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any, NamedTuple

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from swe_sdk.agents.contract import Transcript

_MAX_LINE_BYTES = 256 << 20
_MAX_STDERR_BYTES = 4 << 20
_LAST_CHARS = 500
_END_S = 10.0


class WorkerDied(Exception):
    """The process ended in the middle of an episode; ``last_words`` is the last line of its standard error."""

    def __init__(self, exit_code: int | None, last_words: str) -> None:
        super().__init__(f"its process ended with code {exit_code}")
        self.exit_code = exit_code
        self.last_words = last_words


class Answer(NamedTuple):
    """What is new since the answer before."""

    messages: list[dict[str, Any]]
    counters: dict[str, Any]
    """The agent's state but its messages."""
    action: dict[str, Any] | None
    """The command that is next; None where the model is, or nothing."""
    has_ended: bool
    failed: dict[str, Any] | None
    """How the model failed: status, code, message."""


class WorkerProcess:
    """Requests and answers, one at a time."""

    def __init__(self, process: Process, said: IO[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._said = said
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def tell(self, request: Mapping[str, Any]) -> None:
        """Without an answer."""
        try:
            await self._stdin.send(json.dumps(request).encode() + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise await self._died() from None

    async def ask(self, request: Mapping[str, Any]) -> Answer:
        """The answer; ``WorkerDied``."""
        await self.tell(request)
        try:
            line = await self._lines.receive_until(b"\n", _MAX_LINE_BYTES)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
            raise await self._died() from None
        return Answer(**json.loads(line))

    async def _died(self) -> WorkerDied:
        with anyio.move_on_after(_END_S):
            await self._process.wait()
        self._said.seek(0)
        words = self._said.read(_MAX_STDERR_BYTES).decode("utf-8", "replace").strip()
        return WorkerDied(self._process.returncode, words.rpartition("\n")[2][-_LAST_CHARS:])


@asynccontextmanager
async def worker_process(
    command: Sequence[str], env: Mapping[str, str], stderr: Transcript
) -> AsyncIterator[WorkerProcess]:
    """Start it, and end it with everything that it started. What it said on standard error is in ``stderr`` then."""
    with tempfile.TemporaryFile() as said:
        process = await anyio.open_process(
            command, env=env, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield WorkerProcess(process, said)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_END_S):
                _kill(process)
                await process.aclose()
            said.seek(0)
            stderr.write(said.read(_MAX_STDERR_BYTES))


def _kill(process: Process) -> None:
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
