"""One command in a remote box: begun there, followed from here, timed by our own clock."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import anyio

from swe_sdk.errors import SandboxLost, TransferFailed
from swe_sdk.model.exec_result import ExecResult, ExecStatus
from swe_sdk.sandbox.boxside.recording import PIECE
from swe_sdk.sandbox.contract import OnOutput, Stream
from swe_sdk.sandbox.exec_client import GRACE_S, KILL_CAP_S, ExecRequest, KillUnconfirmed, unstartable, variables
from swe_sdk.sandbox.providers.remote.calls import TRANSFER_S, Calls, Held, OnMore, Unknown
from swe_sdk.sandbox.providers.remote.engine import Upload
from swe_sdk.sandbox.providers.remote.failures import RemoteTrouble
from swe_sdk.sandbox.providers.remote.replies import MOST_BYTES, Exit, Failure, Reply, not_ours

Wait = Callable[[OnMore | None], Awaitable[Reply]]
_LARGE_INPUT_BYTES = 16 << 10
_LOOK_S = 0.5
"""A bell may be lost with its connection: the live stream is looked at so often in any case."""
_STREAMS: dict[int, Stream] = {1: "stdout", 2: "stderr"}
_MOST_OF_ANY_BYTES = 1 << 30
"""Of the result of a command that somebody else has begun, who has said how much of its output is kept."""


async def run(calls: Calls, name: str, request: ExecRequest) -> ExecResult:
    """Run it to its end. Raises ``KillUnconfirmed`` where it may have outlived its limit, or its caller, and
    ``CallersError``."""
    message = await command_message(calls, name, request)
    most_bytes = 2 * request.output_bytes + MOST_BYTES

    async def begin(on_more: OnMore | None) -> Reply:
        return await calls.make(name, message, on_more=on_more, most_bytes=most_bytes)

    try:
        result = await _watch(calls, name, begin, request.timeout_s, request.on_output, most_bytes)
    except (Held, KillUnconfirmed):
        raise
    except BaseException:
        with anyio.CancelScope(shield=True):
            await _give_up(calls, name)
        raise
    finally:
        calls.is_done_with(name)
    return result


async def await_result(
    calls: Calls, name: str, *, timeout_s: float | None = None, on_output: OnOutput | None = None
) -> ExecResult:
    """The same for a command that was begun before, by whatever process; it goes on where its caller gives up.

    ``Unknown`` where there is none.
    """

    async def follow(on_more: OnMore | None) -> Reply:
        return await calls.follow(name, on_more=on_more, most_bytes=_MOST_OF_ANY_BYTES)

    result = await _watch(calls, name, follow, timeout_s, on_output, _MOST_OF_ANY_BYTES)
    calls.is_done_with(name)
    return result


async def command_message(calls: Calls, name: str, request: ExecRequest) -> dict[str, Any]:
    """As the station takes it; a large input goes ahead as a file."""
    stdin: str | None = None
    is_file = request.stdin is not None and len(request.stdin) > _LARGE_INPUT_BYTES
    if request.stdin is not None:
        stdin = calls.path_for(name, "stdin") if is_file else request.stdin.decode("latin-1")
    if is_file and request.stdin is not None:
        await calls.upload(Upload(calls.path_for(name, "stdin"), request.stdin, 0o600))
    message: dict[str, Any] = {
        "op": "exec",
        "argv": list(request.argv),
        "cwd": request.cwd,
        "env": variables(request),
        "stdin": stdin,
        "stdin_file": is_file,
        "output_bytes": request.output_bytes,
        "merge_stderr": request.merge_stderr,
        "live": request.on_output is not None,
    }
    if request.run_as is not None:
        message |= {"uid": request.run_as.uid, "gid": request.run_as.gid, "groups": list(request.run_as.groups)}
    return message


async def _watch(
    calls: Calls, name: str, wait: Wait, timeout_s: float | None, on_output: OnOutput | None, most_bytes: int
) -> ExecResult:
    started_at = time.monotonic()
    live = LiveStream(calls, name, on_output) if on_output is not None else None
    reply: Reply | None = None
    try:
        with anyio.move_on_after(timeout_s):
            reply = await (wait(None) if live is None else live.pump_while(wait))
        if reply is None:
            reply = await _stopped(calls, name, GRACE_S, most_bytes)
        if live is not None:
            with anyio.move_on_after(TRANSFER_S):
                await live.take()
        return _result(reply, time.monotonic() - started_at)
    except SandboxLost:
        return ExecResult(status="lost", duration_s=time.monotonic() - started_at)


async def _stopped(calls: Calls, name: str, grace_s: float, most_bytes: int = _MOST_OF_ANY_BYTES) -> Reply | None:
    """Have it killed with all its processes, and wait for the word that they are gone; None where that never comes."""
    with anyio.move_on_after(grace_s + KILL_CAP_S):
        try:
            await calls.ask({"op": "stop", "target": name, "grace_s": grace_s})
            return await calls.follow(name, most_bytes=most_bytes)
        except Unknown:
            return Reply({"ev": "refused"})  # it had not come by then, and will be refused if it does
        except RemoteTrouble:
            return None  # its processes may leave no room for ours
    return None


async def _give_up(calls: Calls, name: str) -> None:
    """Nobody wants the result any more: leave nothing of it, if need be by ending the box."""
    try:
        reply = await _stopped(calls, name, 0.0)
    except SandboxLost:
        return  # and the command with it
    if reply is None or not reply.header.get("tree_gone", True):
        await calls.engine.kill(calls.sandbox)


def _result(reply: Reply | None, duration_s: float) -> ExecResult:
    """What came of it, by the word of the station: that it was killed means that its time was up."""
    if reply is None:
        raise KillUnconfirmed(ExecResult(status="timeout", duration_s=duration_s))
    if reply.event == "refused":
        return ExecResult(status="timeout", duration_s=duration_s)
    if reply.event != "exit":
        failure = reply.read(Failure)
        return unstartable(OSError(failure.errno or 0, failure.error), duration_s)
    ended = reply.read(Exit)
    status = _status(ended)
    kept = ended.kept[0]
    output = [reply.payload[:kept], reply.payload[kept : kept + ended.kept[1]]]
    missing = [kept - len(found) for kept, found in zip(ended.kept, output, strict=True)]
    result = ExecResult(
        status=status,
        exit_code=ended.exit_code if status == "exited" else None,
        stdout_bytes=output[0],
        stderr_bytes=output[1],
        stdout_dropped_bytes=ended.dropped[0] + missing[0],
        stderr_dropped_bytes=ended.dropped[1] + missing[1],
        duration_s=ended.duration_s,
    )
    if not ended.tree_gone:
        raise KillUnconfirmed(result)
    return result


def _status(ended: Exit) -> ExecStatus:
    """The kernel's own count says whether memory ran out; a command that went well all the same has exited."""
    if ended.has_starved and ended.exit_code != 0:
        return "oom"
    return "timeout" if ended.killed else "exited"


class CallersError(Exception):
    """What a caller's ``on_output`` has raised: of whatever kind it is, it says nothing about this box."""

    def __init__(self, error: Exception) -> None:
        super().__init__(repr(error))
        self.error = error


class LiveStream:
    """What a command prints while it runs: a file in the box that grows."""

    def __init__(self, calls: Calls, name: str, on_output: OnOutput) -> None:
        self._calls = calls
        self._path = calls.path_for(name, "stream")
        self._on_output = on_output
        self._offset = 0
        self._rest = bytearray()
        self._left = 0
        """How much of a piece is yet to come."""
        self._stream: Stream = "stdout"
        self._bell = anyio.Event()

    async def pump_while(self, wait: Wait) -> Reply | None:
        """Take what is printed while ``wait`` waits for the reply. An error of the callback ends that, and is raised as
        ``CallersError``."""
        replies: list[Reply] = []
        errors: list[Exception] = []
        async with anyio.create_task_group() as tasks:

            async def pump() -> None:
                try:
                    await self._pump()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is raised below
                    errors.append(error)
                    tasks.cancel_scope.cancel()

            tasks.start_soon(pump)
            try:
                replies.append(await wait(lambda: self._bell.set()))
            except Exception as error:  # noqa: BLE001 - raised below, outside of the group
                errors.append(error)
            tasks.cancel_scope.cancel()
        if errors:
            raise errors[0]
        return replies[0]

    async def _pump(self) -> None:
        while True:
            with anyio.move_on_after(_LOOK_S):
                await self._bell.wait()
            if self._bell.is_set() or self._offset:
                self._bell = anyio.Event()
                await self.take()

    async def take(self) -> None:
        """All that is there by now; nothing where the disk of the box had no room for it."""
        try:
            async with aclosing(self._calls.download(self._path, self._offset)) as pieces:
                async for data in pieces:
                    self._offset += len(data)
                    self._deliver(data)
        except TransferFailed:
            pass

    def _deliver(self, data: bytes) -> None:
        """What has arrived, cut anywhere; of a piece nothing is held back, as it may say that it is of any size."""
        self._rest += data
        while self._rest:
            if not self._left:
                if len(self._rest) < PIECE.size:
                    return
                number, self._left = PIECE.unpack_from(self._rest)
                del self._rest[: PIECE.size]
                if number not in _STREAMS:
                    raise not_ours()
                self._stream = _STREAMS[number]
            found = bytes(self._rest[: self._left])
            del self._rest[: len(found)]
            self._left -= len(found)
            if found:
                self._tell(found)

    def _tell(self, data: bytes) -> None:
        try:
            self._on_output(self._stream, data)
        except Exception as error:  # the caller's code may raise anything
            raise CallersError(error) from error
