"""One command through a supervisor: streams by pipes, the ending by message, the time limit on our side."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal

import anyio

from swe_sdk.errors import InputError
from swe_sdk.model.environment import check_variables
from swe_sdk.model.exec_result import ExecResult, ExecStatus
from swe_sdk.sandbox.boxside import frames
from swe_sdk.sandbox.contract import OnOutput, Stream
from swe_sdk.sandbox.output import HeadTail
from swe_sdk.sandbox.waiting import Readers
from swe_sdk.sandbox.wire import Call, PeerGone

GRACE_S = 2.0
"""Between SIGTERM and SIGKILL of a command that ran out of time."""
KILL_CAP_S = 15.0
"""How long to wait for the supervisor's word that a killed tree is gone."""
_PIPE_BYTES = 1 << 18
_READ_BYTES = 1 << 18


@dataclass(frozen=True)
class RunAs:
    """Who runs a command: a user of the box, by number."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """What goes with that user, such as HOME; below the variables of the spec and of the call."""


@dataclass(frozen=True)
class ExecRequest:
    """What to run. All names are resolved: no defaults are left."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    run_as: RunAs | None
    """None = the user as whom the supervisor starts programs."""
    stdin: bytes | None
    timeout_s: float | None
    output_bytes: int
    merge_stderr: bool
    on_output: OnOutput | None
    owner: int | None = None
    """Host id of the user that the streams are given to, where that is not this process's own."""

    def __post_init__(self) -> None:
        """A call that no program could get as it was meant is the caller's mistake, not the program's failure."""
        if not self.argv or not self.argv[0]:
            raise InputError("a command names no program")
        if any("\0" in text for text in (*self.argv, self.cwd)):
            raise InputError("an argument of a command, or its directory, holds a NUL byte")
        if self.timeout_s is not None and not self.timeout_s >= 0:
            raise InputError(f"a command cannot have {self.timeout_s} seconds")
        try:
            check_variables(dict(self.env))
        except ValueError as error:
            raise InputError(f"environment of a command: {error}") from None


class KillUnconfirmed(Exception):
    """A killed command may still have live processes: the box must be discarded. ``result`` is what is known."""

    def __init__(self, result: ExecResult) -> None:
        super().__init__("a killed process tree is not known to be gone")
        self.result = result


async def run(call: Call, request: ExecRequest) -> ExecResult:
    """Run ``request`` in ``call``, which is ready for another one if this returns a status other than ``lost``.

    Raises ``KillUnconfirmed`` where it may have outlived its limit. Cancellation kills the tree and waits for that, up
    to :data:`KILL_CAP_S`.
    """
    with _Streams(request) as streams:
        started_at = time.monotonic()
        ending = _Ending()
        try:
            await call.send(_message(request), streams.theirs)
            await _await_end(call, request, streams, ending)
        except PeerGone:
            ending.status = "lost"
        except frames.FrameError:  # far beyond what the kernel takes: told as the kernel would tell it
            ending.unstartable = OSError(errno.E2BIG, os.strerror(errno.E2BIG))
        except BaseException:
            await _kill(call, ending)
            raise
        duration_s = time.monotonic() - started_at
        if ending.unstartable is not None:
            return unstartable(ending.unstartable, duration_s)
        if ending.status == "exited":
            await _leave_to_supervisor(call, streams)
        result = streams.result(ending, duration_s)
        if not ending.tree_gone:
            raise KillUnconfirmed(result)
        return result


async def _leave_to_supervisor(call: Call, streams: _Streams) -> None:
    """Background processes hold our pipes: somebody must go on reading, or the next line they print ends them."""
    held = streams.open
    if held:
        try:
            await call.send({"op": "adopt"}, held)
        except PeerGone:
            pass  # and they with it


def _message(request: ExecRequest) -> frames.Message:
    message: frames.Message = {
        "op": "exec",
        "argv": list(request.argv),
        "cwd": request.cwd,
        "env": variables(request),
    }
    if request.run_as is not None:
        message |= {"uid": request.run_as.uid, "gid": request.run_as.gid, "groups": list(request.run_as.groups)}
    return message


def variables(request: ExecRequest) -> list[str]:
    """The environment of a command as a supervisor takes it: ``NAME=value`` each."""
    return [f"{name}={value}" for name, value in request.env.items()]


class _Ending:
    """How the command ended, filled in as it becomes known."""

    def __init__(self) -> None:
        self.status: ExecStatus = "exited"
        self.exit_code: int | None = None
        self.over_limit: Literal["disk_mib"] | None = None
        self.is_known = False
        self.tree_gone = True
        self.unstartable: OSError | None = None

    def take(self, message: frames.Message) -> None:
        """Take the supervisor's word."""
        self.is_known = True
        if message["ev"] != "exit":
            self.unstartable = OSError(message.get("errno") or 0, str(message.get("error")))
            return
        if not message["killed"]:
            self.status = "exited"  # it ended by itself just before its limit
        elif message["out_of_memory"]:
            self.status = "oom"
        elif message["over_disk_limit"]:
            self.status, self.over_limit = "exited", "disk_mib"
        self.exit_code = message["exit_code"] if self.status == "exited" else None
        self.tree_gone = bool(message["tree_gone"])


async def _await_end(call: Call, request: ExecRequest, streams: _Streams, ending: _Ending) -> None:
    with nullcontext() if request.timeout_s is None else anyio.move_on_after(request.timeout_s):
        await _follow(call, streams, ending)
    if not ending.is_known:
        ending.status = "timeout"
        await _ask_to_kill(call, GRACE_S)
        with anyio.move_on_after(GRACE_S + KILL_CAP_S):
            await _follow(call, streams, ending)
        ending.tree_gone = ending.tree_gone and ending.is_known
    streams.close_theirs()  # not before: the ends of the streams would wake us once more, just before the command's
    streams.drain()


async def _follow(call: Call, streams: _Streams, ending: _Ending) -> None:
    """Read the streams until the supervisor says how the command ended.

    One wait on all of them, not a task for each: a third of the time of a short command. Background processes may hold
    the streams open for ever, so their end is not waited for.
    """
    with Readers([call.fileno(), *streams.open]) as readers:
        while True:
            for fd in await readers.ready():
                if fd != call.fileno():
                    if not streams.read(fd):
                        readers.remove(fd)
                elif (message := call.receive_now()) is not None:
                    ending.take(message)
                    return


async def _kill(call: Call, ending: _Ending) -> None:
    """The caller gave up: kill at once, and wait until that has happened."""
    with anyio.move_on_after(KILL_CAP_S, shield=True):
        if not ending.is_known:
            await _ask_to_kill(call, 0.0)
            try:
                await call.receive()
            except PeerGone:
                pass  # with its box


async def _ask_to_kill(call: Call, grace_s: float) -> None:
    try:
        await call.send({"op": "kill", "grace_s": grace_s})
    except PeerGone:
        pass  # it has just ended, and its last word may still be on the way


def unstartable(error: OSError, duration_s: float) -> ExecResult:
    """A program or directory that is not there is the command's failure, told as a shell would tell it."""
    code = 127 if error.errno == errno.ENOENT else 126
    text = f"cannot start: {error.strerror}\n".encode("utf-8", "surrogateescape")
    return ExecResult(status="exited", exit_code=code, stderr_bytes=text, duration_s=duration_s)


class _Streams:
    """The command's three streams: our ends and the supervisor's."""

    def __init__(self, request: ExecRequest) -> None:
        self._on_output = request.on_output
        self._buffers: dict[Stream, HeadTail] = {
            "stdout": HeadTail(request.output_bytes),
            "stderr": HeadTail(request.output_bytes),
        }
        self._ours: dict[int, Stream] = {}
        self._ended: set[int] = set()
        self.theirs: list[int] = []
        try:
            self.theirs.append(_input(request.stdin))
            self.theirs.append(self._pipe("stdout"))
            self.theirs.append(os.dup(self.theirs[1]) if request.merge_stderr else self._pipe("stderr"))
            for fd in self.theirs[0 if request.stdin is not None else 1 :]:
                _open_to(fd, request)
        except BaseException:
            self.close()
            raise

    @property
    def open(self) -> tuple[int, ...]:
        """Our ends of the output pipes that have not come to their end."""
        return tuple(reader for reader in self._ours if reader not in self._ended)

    def _pipe(self, stream: Stream) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._ours[reader] = stream
        os.set_blocking(reader, False)
        try:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # an ordinary user may have 64 MiB of enlarged pipes in all; the usual 64 KiB work too
        return writer

    def read(self, reader: int) -> bool:
        """Take one piece of what is there; False at the end of the stream."""
        try:
            chunk = os.read(reader, _READ_BYTES)
        except BlockingIOError:
            return True
        self._take(reader, chunk)
        return bool(chunk)

    def _take(self, reader: int, chunk: bytes) -> None:
        if not chunk:
            self._ended.add(reader)
            return
        stream = self._ours[reader]
        self._buffers[stream].feed(chunk)
        if self._on_output is not None:
            self._on_output(stream, chunk)

    def drain(self) -> None:
        """Read what was in the pipes when the command ended, and no more: others may go on writing."""
        for reader in self.open:
            left = _PIPE_BYTES
            while left > 0:
                try:
                    chunk = os.read(reader, left)
                except BlockingIOError:
                    break
                self._take(reader, chunk)
                left = left - len(chunk) if chunk else 0

    def result(self, ending: _Ending, duration_s: float) -> ExecResult:
        """All that is known, as a value."""
        stdout, stdout_dropped = self._buffers["stdout"].result()
        stderr, stderr_dropped = self._buffers["stderr"].result()
        return ExecResult(
            status=ending.status,
            exit_code=ending.exit_code,
            over_limit=ending.over_limit,
            stdout_bytes=stdout,
            stderr_bytes=stderr,
            stdout_dropped_bytes=stdout_dropped,
            stderr_dropped_bytes=stderr_dropped,
            duration_s=duration_s,
        )

    def close_theirs(self) -> None:
        """Give up our copies of the ends that the supervisor got."""
        theirs, self.theirs = self.theirs, []
        for fd in theirs:
            os.close(fd)

    def close(self) -> None:
        """Close everything."""
        self.close_theirs()
        ours, self._ours = self._ours, {}
        for fd in ours:
            os.close(fd)

    def __enter__(self) -> _Streams:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _open_to(fd: int, request: ExecRequest) -> None:
    """Let the program open its stream once more: /dev/stdout and its kin do that."""
    if request.owner is not None:
        os.fchown(fd, request.owner, request.owner)
    elif request.run_as is not None:
        os.fchmod(fd, 0o666)  # nobody but processes of that user can find it


def _input(data: bytes | None) -> int:
    """Standard input: nothing, or an anonymous file, which no reader can make us wait for."""
    if data is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
