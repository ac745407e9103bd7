"""One command through a supervisor: streams by pipes, the ending by message, the time limit on our side."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio

from swe_sdk.errors import SandboxLost
from swe_sdk.model.exec_result import ExecResult, ExecStatus
from swe_sdk.sandbox.boxside import frames
from swe_sdk.sandbox.boxside.processes import COOKIE
from swe_sdk.sandbox.contract import OnOutput, Stream
from swe_sdk.sandbox.output import HeadTail
from swe_sdk.sandbox.wire import Call, PeerGone

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL of a command that ran out of time."""
KILL_CAP_S = 15.0
"""How long to wait for the supervisor's word that a killed tree is gone."""
_PIPE_BYTES = 1 << 18
_READ_BYTES = 1 << 18


@dataclass(frozen=True)
class ExecRequest:
    """What to run. All names are resolved: no defaults are left."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    uid: int | None
    stdin: bytes | None
    timeout_s: float | None
    output_bytes: int
    merge_stderr: bool
    on_output: OnOutput | None


class KillUnconfirmed(Exception):
    """A killed command may still have live processes: the box must be discarded. ``result`` is what is known."""

    def __init__(self, result: ExecResult) -> None:
        super().__init__("a killed process tree is not known to be gone")
        self.result = result


async def run(call: Call, request: ExecRequest) -> ExecResult:
    """Run ``request`` in its own ``call``, which is closed here.

    Raises ``SandboxLost`` where it could not be started, ``KillUnconfirmed`` where it may have outlived its limit.
    Cancellation kills the tree and waits for that, up to :data:`KILL_CAP_S`.
    """
    with call, _Streams(request) as streams:
        started_at = time.monotonic()
        message = {
            "op": "exec",
            "argv": list(request.argv),
            "cwd": request.cwd,
            "uid": request.uid,
            "cookie": (cookie := secrets.token_hex(8)),
            "env": {**request.env, COOKIE: cookie},
        }
        try:
            await call.send(message, streams.theirs)
            streams.close_theirs()
            reply, _fds = await call.receive()
        except PeerGone:
            raise SandboxLost("the sandbox died before the command started") from None
        except frames.FrameError:  # far beyond what the kernel takes: told as the kernel would tell it
            too_big = OSError(errno.E2BIG, os.strerror(errno.E2BIG))
            return _unstartable({"error": str(too_big), "errno": too_big.errno}, started_at)
        if reply["ev"] != "started":
            return _unstartable(reply, started_at)
        ending = _Ending()
        try:
            await _await_end(call, request, streams, ending)
        except BaseException:
            await _kill(call, ending)
            raise
        result = streams.result(ending.status, ending.exit_code, time.monotonic() - started_at)
        if not ending.tree_gone:
            raise KillUnconfirmed(result)
        return result


class _Ending:
    """How the command ended, filled in as it becomes known."""

    def __init__(self) -> None:
        self.status: ExecStatus = "exited"
        self.exit_code: int | None = None
        self.is_known = False
        self.tree_gone = True

    async def wait(self, call: Call) -> None:
        """Wait for the supervisor's word."""
        try:
            message, _fds = await call.receive()
        except PeerGone:
            self.status = "lost"
        else:
            if not message["killed"]:
                self.status = "exited"  # it ended by itself just before its limit
            elif message["out_of_memory"]:
                self.status = "oom"
            self.exit_code = message["exit_code"] if self.status == "exited" else None
            self.tree_gone = bool(message["tree_gone"])
        self.is_known = True


async def _await_end(call: Call, request: ExecRequest, streams: _Streams, ending: _Ending) -> None:
    async with anyio.create_task_group() as pumps:
        for stream in streams.open:
            pumps.start_soon(streams.pump, stream)
        with anyio.move_on_after(request.timeout_s):
            await ending.wait(call)
        if not ending.is_known:
            ending.status = "timeout"
            await _ask_to_kill(call, GRACE_S)
            with anyio.move_on_after(GRACE_S + KILL_CAP_S):
                await ending.wait(call)
            ending.tree_gone = ending.tree_gone and ending.is_known
        pumps.cancel_scope.cancel()  # a background process may hold the pipes open for ever
    streams.drain()


async def _kill(call: Call, ending: _Ending) -> None:
    """The caller gave up: kill at once, and wait until that has happened."""
    with anyio.move_on_after(KILL_CAP_S, shield=True):
        if not ending.is_known:
            await _ask_to_kill(call, 0.0)
            await ending.wait(call)


async def _ask_to_kill(call: Call, grace_s: float) -> None:
    try:
        await call.send({"op": "kill", "grace_s": grace_s})
    except PeerGone:
        pass  # whoever waits for the ending learns it


def _unstartable(reply: frames.Message, started_at: float) -> ExecResult:
    """A program or directory that is not there is the command's failure, told as a shell would tell it."""
    code = 127 if reply.get("errno") == errno.ENOENT else 126
    text = f"cannot start: {reply.get('error')}\n".encode("utf-8", "surrogateescape")
    return ExecResult(status="exited", exit_code=code, stderr_bytes=text, duration_s=time.monotonic() - started_at)


class _Streams:
    """The command's three streams: our ends and the supervisor's."""

    def __init__(self, request: ExecRequest) -> None:
        self._on_output = request.on_output
        self._buffers: dict[Stream, HeadTail] = {
            "stdout": HeadTail(request.output_bytes),
            "stderr": HeadTail(request.output_bytes),
        }
        self._ours: dict[Stream, int] = {}
        self.theirs: list[int] = []
        try:
            self.theirs.append(_input(request.stdin))
            self.theirs.append(self._pipe("stdout"))
            self.theirs.append(os.dup(self.theirs[1]) if request.merge_stderr else self._pipe("stderr"))
        except BaseException:
            self.close()
            raise

    @property
    def open(self) -> tuple[Stream, ...]:
        """The streams that have a pipe."""
        return tuple(self._ours)

    def _pipe(self, stream: Stream) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._ours[stream] = reader
        os.set_blocking(reader, False)
        try:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # an ordinary user may have 64 MiB of enlarged pipes in all; the usual 64 KiB work too
        return writer

    async def pump(self, stream: Stream) -> None:
        """Read a stream until it ends."""
        while self._read_available(stream, _READ_BYTES):
            await anyio.wait_readable(self._ours[stream])

    def _read_available(self, stream: Stream, at_most: int) -> bool:
        """Read what is there, about ``at_most`` bytes of it; False at the end of the stream."""
        taken = 0
        while taken < at_most:
            try:
                chunk = os.read(self._ours[stream], _READ_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            taken += len(chunk)
            self._buffers[stream].feed(chunk)
            if self._on_output is not None:
                self._on_output(stream, chunk)
        return True

    def drain(self) -> None:
        """Read what was in the pipes when the command ended, and no more: others may go on writing."""
        for stream, reader in self._ours.items():
            self._read_available(stream, fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ))

    def result(self, status: ExecStatus, exit_code: int | None, duration_s: float) -> ExecResult:
        """All that is known, as a value."""
        stdout, stdout_dropped = self._buffers["stdout"].result()
        stderr, stderr_dropped = self._buffers["stderr"].result()
        return ExecResult(
            status=status,
            exit_code=exit_code,
            stdout_bytes=stdout,
            stderr_bytes=stderr,
            stdout_dropped_bytes=stdout_dropped,
            stderr_dropped_bytes=stderr_dropped,
            duration_s=duration_s,
        )

    def close_theirs(self) -> None:
        """Give up the supervisor's ends once it has its own copies."""
        theirs, self.theirs = self.theirs, []
        for fd in theirs:
            os.close(fd)

    def close(self) -> None:
        """Close everything."""
        self.close_theirs()
        ours, self._ours = self._ours, {}
        for fd in ours.values():
            os.close(fd)

    def __enter__(self) -> _Streams:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _input(data: bytes | None) -> int:
    """Standard input: nothing, or an anonymous file, which no reader can make us wait for."""
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
