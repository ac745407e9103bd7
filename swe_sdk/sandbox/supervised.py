"""A box whose commands run under our supervisor, whoever made the box."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import anyio

from swe_sdk.errors import (
    InputError,
    NoSpace,
    SandboxClosed,
    SandboxError,
    SandboxLost,
    TransferFailed,
)
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox import exec_client, transfers
from swe_sdk.sandbox.contract import DEFAULT_OUTPUT_BYTES, OnOutput, Process, SandboxSpec
from swe_sdk.sandbox.wire import Call, PeerGone, close_all, open_call

CALL_TIMEOUT_S = 30.0
_TRANSFER_TIMEOUT_S = 3600.0
_CROWDED_S, _CROWDED_LOOK_S = 15.0, 0.1
_MAX_IDLE = 8
_NOTHING = nullcontext()
BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    # nothing may wait for a key, and no pager for its reader
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""Variables of every command, below those of the spec and of the call."""


class SupervisedBox:
    """Everything of a box that goes through the control socket of its supervisor.

    A provider's box adds how it is made and ended: it sets ``_control`` once the supervisor serves it, and implements
    the methods that raise ``NotImplementedError`` here.
    """

    def __init__(self, spec: SandboxSpec, box_id: str) -> None:
        self._spec = spec
        self._id = box_id
        self._control: socket.socket | None = None
        self.idle: list[Call] = []
        """Connections to the supervisor that wait for their next call: a new one takes a tenth of a short command."""
        self._is_closed = False
        self._is_paused = False
        self.is_lost = False
        """Whether a call has found it dead: the kernel may take a moment longer to bury its first process."""
        self.has_listened = False
        """Whether it was ever asked for a listener: that would not outlive the box's first process."""
        self.shell = "/bin/sh"
        """What runs a command that is a line."""
        self.env: Mapping[str, str] = BASE_ENV
        self.owner: tuple[int, int] | None = None
        """User and group of new files, where those are not the supervisor's own."""

    @property
    def id(self) -> str:
        """Unique on this machine."""
        return self._id

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._spec

    @property
    def is_paused(self) -> bool:
        """Whether we paused it."""
        return self._is_paused

    @property
    def is_closed(self) -> bool:
        """Whether we closed it."""
        return self._is_closed

    # -- what a provider adds ---------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Kill every process in it, and wait until they are gone."""
        raise NotImplementedError

    def _user(self, user: str | None) -> int | None:
        """The id of a user by name, None for the one whom the supervisor starts programs as; or an error."""
        raise NotImplementedError

    async def _run_as(self, user: str | None) -> exec_client.RunAs | None:
        """The same, where a user is more than a number: has groups, and variables of its own."""
        uid = self._user(user)
        return None if uid is None else exec_client.RunAs(uid, uid)

    def _explained(self, result: ExecResult) -> ExecResult:
        """The result, with what only the provider's own facts can tell of its end."""
        return result

    async def _explained_loss(self, result: ExecResult) -> ExecResult:
        """The result of a command under which the box died, with what the provider's own facts tell of that."""
        return result

    def _stream_owner(self, run_as: exec_client.RunAs | None) -> int | None:
        """Host id of the user that a command's streams are given to, where it is not this process's own."""
        return None

    def _running(self) -> AbstractAsyncContextManager[None]:
        """Around every command: a provider may limit how many run at once."""
        return _NOTHING

    def _used(self) -> AbstractAsyncContextManager[None]:
        """Around every call: a provider may have to hold it back."""
        return _NOTHING

    # -- commands ---------------------------------------------------------------------------------------------------

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        timeout_s: float | None = None,
        output_bytes: int = DEFAULT_OUTPUT_BYTES,
        merge_stderr: bool = False,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """See :meth:`swe_sdk.sandbox.contract.Box.exec`."""
        run_as = await self._run_as(user)
        request = exec_client.ExecRequest(
            argv=[self.shell, "-c", command] if isinstance(command, str) else list(command),
            cwd=os.path.join(self._spec.workdir, cwd) if cwd else self._spec.workdir,
            env={**self.env, **(run_as.env if run_as else {}), **self._spec.env, **(env or {})},
            run_as=run_as,
            stdin=stdin,
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            merge_stderr=merge_stderr,
            on_output=on_output,
            owner=self._stream_owner(run_as),
        )
        try:
            async with self._running(), self._used():
                with self._lost_or_closed():
                    self._require_running()
                    async with self._connected() as call:
                        result = await exec_client.run(call, request)
            if result.status == "lost":
                self.is_lost = True
                return await self._explained_loss(result)
            return self._explained(result)
        except exec_client.KillUnconfirmed as unconfirmed:
            await self.stop()
            return unconfirmed.result

    async def processes(self) -> list[Process]:
        """Everything that runs in it."""
        async with self._used():
            return await self.alive()

    async def alive(self) -> list[Process]:
        """The same, for who holds other calls back."""
        reply = await self._ask({"op": "processes"})
        return [Process.model_validate(process) for process in reply["processes"]]

    async def pause(self) -> None:
        """Stop every process."""
        async with self._used():
            await self._ask({"op": "pause", "timeout_s": 5.0})
            self._is_paused = True

    async def resume(self) -> None:
        """Continue them."""
        async with self._used():
            self._is_paused = False
            await self._ask({"op": "resume"})

    async def listen(self, port: int = 0) -> tuple[int, socket.socket]:
        """A listener on the box's own loopback interface; the caller serves and closes it."""
        if not 0 <= port < 1 << 16:
            raise InputError(f"there is no port {port}")
        try:
            async with self._used():
                message, fds = await self._listener(port)
        except RefusedCall as refused:
            raise SandboxError(f"no listener on port {port} of box {self._id}: {refused}") from None
        self.has_listened = True
        return int(message["port"]), socket.socket(fileno=fds[0])

    async def _listener(self, port: int) -> tuple[dict[str, Any], list[int]]:
        """It comes as a descriptor, and other programs of the user may have all on their way that there may be."""
        until = anyio.current_time() + _CROWDED_S
        while True:
            try:
                return await self._call({"op": "listen", "port": port})
            except RefusedCall as refused:
                if refused.errno != errno.ETOOMANYREFS or anyio.current_time() > until:
                    raise
            await anyio.sleep(_CROWDED_LOOK_S)

    # -- files ------------------------------------------------------------------------------------------------------

    async def read(self, path: str) -> bytes:
        """The content of a regular file."""
        return await transfers.read(self._transfer, path)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a file."""
        await transfers.write(self._transfer, path, data, mode)

    async def upload(self, local: Path, remote: str) -> None:
        """Copy a file in."""
        await transfers.upload(self._transfer, local, remote)

    async def download(self, remote: str, local: Path) -> None:
        """Copy a file out."""
        await transfers.download(self._transfer, remote, local)

    async def _transfer(self, operation: str, path: str, file: BinaryIO, **options: Any) -> dict[str, Any]:
        message = {"op": operation, "path": os.path.join(self._spec.workdir, path), "owner": self.owner, **options}
        try:
            async with self._used():
                reply, _fds = await self._call(message, [file.fileno()], timeout_s=_TRANSFER_TIMEOUT_S)
                return reply
        except RefusedCall as refused:
            if refused.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpace(f"no space left to {operation} {path!r}") from None
            raise TransferFailed(f"cannot {operation} {path!r} in the sandbox: {refused}") from None

    # -- calls to the supervisor ------------------------------------------------------------------------------------

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            reply, fds = await self._call(message)
        except RefusedCall as refused:
            raise SandboxError(f"{message['op']} failed in box {self._id}: {refused}") from None
        close_all(fds)
        return reply

    async def _call(
        self, message: dict[str, Any], fds: Sequence[int] = (), *, timeout_s: float = CALL_TIMEOUT_S
    ) -> tuple[dict[str, Any], list[int]]:
        with self._lost_or_closed():
            try:
                with anyio.fail_after(timeout_s):
                    async with self._connected() as call:
                        await call.send(message, fds)
                        reply, received = await call.receive()
            except TimeoutError:
                self.is_lost = True
                raise SandboxLost(f"box {self._id} did not answer within {timeout_s:.0f} s") from None
        if reply["ev"] == "error":
            close_all(received)
            raise RefusedCall(str(reply["error"]), reply.get("errno"))
        return reply, received

    def _connected(self) -> _Connected:
        return _Connected(self, self._live_control())

    def is_served_by(self, control: socket.socket) -> bool:
        """Whether calls go there still."""
        return control is self._control

    def _serve_by(self, control: socket.socket | None, first: Call | None = None) -> None:
        """Serve calls by another first process, or by none any more."""
        old, self._control = self._control, control
        idle, self.idle = self.idle, [first] if first else []
        for call in idle:
            call.close()
        if old is not None:
            old.close()

    def _require_running(self) -> None:
        if self._is_paused:
            raise SandboxError(f"box {self._id} is paused", remedy="resume it first")

    def _live_control(self) -> socket.socket:
        if self._is_closed:
            raise SandboxClosed(f"box {self._id} is closed")
        if self._control is None or self.is_lost:
            raise SandboxLost(f"box {self._id} is dead")
        return self._control

    def _lost_or_closed(self) -> _LostOrClosed:
        return _LostOrClosed(self)


class _Connected:
    """A connection for one call, kept for the next if the call went well to its end; else closed.

    What runs in a call whose connection is closed is killed by its supervisor.
    """

    def __init__(self, box: SupervisedBox, control: socket.socket) -> None:
        self._box = box
        self._control = control

    async def __aenter__(self) -> Call:
        idle = self._box.idle
        while idle:
            self._call = idle.pop()
            if self._call.is_ready:
                return self._call
            self._call.close()
        self._call = await open_call(self._control)
        return self._call

    async def __aexit__(self, kind: object, _error: object, _trace: object) -> None:
        if kind is None and self._box.is_served_by(self._control) and len(self._box.idle) < _MAX_IDLE:
            self._box.idle.append(self._call)
        else:
            self._call.close()


class _LostOrClosed:
    """Tells a box that died from one that we closed under a running call."""

    def __init__(self, box: SupervisedBox) -> None:
        self._box = box

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, PeerGone | SandboxLost):
            if self._box.is_closed:
                raise SandboxClosed(f"box {self._box.id} was closed meanwhile") from None
            if isinstance(error, PeerGone):  # a SandboxLost may be that of another box, from a caller's callback
                self._box.is_lost = True
                raise SandboxLost(f"box {self._box.id} died") from None


class RefusedCall(Exception):
    """The supervisor could not do it; ``errno`` says why."""

    def __init__(self, text: str, number: int | None) -> None:
        super().__init__(text)
        self.errno = number
