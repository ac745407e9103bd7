"""One box of the local provider."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import anyio
from anyio import to_thread

from swe_sdk.errors import (
    CapabilityMissing,
    CreateFailed,
    InputError,
    NoSpace,
    SandboxClosed,
    SandboxError,
    SandboxLost,
    TransferFailed,
)
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox import exec_client
from swe_sdk.sandbox.contract import DEFAULT_OUTPUT_BYTES, BoxStatus, OnOutput, Process, SandboxSpec
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup
from swe_sdk.sandbox.providers.local.skeleton import HOME
from swe_sdk.sandbox.waiting import readable
from swe_sdk.sandbox.wire import PeerGone, close_all, open_call

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

_STOP_CAP_S = 20.0
_END_CAP_S = 2.0
_CALL_TIMEOUT_S = 30.0
_TRANSFER_TIMEOUT_S = 3600.0
_READ_LIMIT_BYTES = 1 << 30
_FIRST_ROOM_BYTES = 1 << 16
"""What is read without asking first how much it is."""
_BASE_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": HOME,
    "USER": "agent",
    "LOGNAME": "agent",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    # nothing may wait for a key, and no pager for its reader
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
_SHELL = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class LocalBox:
    """A box on user namespaces. Made by ``LocalProvider.create``."""

    def __init__(self, provider: LocalProvider, spec: SandboxSpec, chain: tuple[str, ...], box_id: str) -> None:
        self._provider = provider
        self._spec = spec
        self._id = box_id
        self.chain = chain
        """What it stands on: the layers below its own, from the top down."""
        self.named_by = spec.snapshot
        """A snapshot that names all layers which it needs; None where there may be none."""
        self.path = Path()
        self._control: socket.socket | None = None
        self._pidfd = -1
        self.cgroup: BoxCgroup | None = None
        """Where its memory is counted: its own group, or the one that it shares."""
        self.own_cgroup: BoxCgroup | None = None
        self._is_closed = False
        self._is_paused = False
        self.is_lost = False
        """Whether a call has found it dead: the kernel may take a moment longer to bury its first process."""
        self._uses = 0
        self.freezing = anyio.Lock()
        """Held while a snapshot is made of it."""
        self.changing = anyio.Lock()
        """Held while its first process is ended or renewed."""

    @property
    def id(self) -> str:
        """Unique on this machine."""
        return self._id

    @property
    def spec(self) -> SandboxSpec:
        """What it was made from."""
        return self._spec

    # -- lifecycle --------------------------------------------------------------------------------------------------

    async def start(self, root: dict[str, Any], id_map: str | None) -> None:
        """Bring up its first process on the layers that ``root`` names."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                message = {"spec": root, "id_map": id_map}
                self._pidfd = await self._provider.zygote.create(message, theirs, self._on_born)
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        self._control = ours
        self.is_lost = False

    def _on_born(self, pid: int) -> None:
        if self.own_cgroup is not None:
            try:
                self.own_cgroup.add(pid)
            except OSError as error:
                raise CreateFailed(f"box {self._id} could not be put under its limits: {error}") from error

    async def stop(self) -> None:
        """Kill every process in it, and wait until the kernel has taken all of it down, mounts included."""
        control, self._control = self._control, None
        pidfd, self._pidfd = self._pidfd, -1
        try:
            if pidfd >= 0:
                _kill(pidfd)
                with anyio.move_on_after(_STOP_CAP_S) as scope:
                    await readable(pidfd)
                if scope.cancelled_caught:
                    raise SandboxError(f"box {self._id} is still alive {_STOP_CAP_S:.0f} s after SIGKILL")
        finally:
            if pidfd >= 0:
                os.close(pidfd)
            if control is not None:
                control.close()

    async def close(self) -> None:
        """Kill everything in it and delete what it wrote. Runs to its end even if the caller is cancelled."""
        with anyio.CancelScope(shield=True):
            async with self.changing:
                if self._is_closed:
                    return
                self._is_closed = True
                await self.stop()
                if self.own_cgroup is not None:
                    self.own_cgroup.remove()
                await to_thread.run_sync(self._provider.store.discard, self.path, self.chain, self.named_by)
                self._provider.boxes.pop(self._id, None)

    def end(self) -> None:
        """Kill it at the end of this process, where no event loop runs any more, and wait for that a moment."""
        if self._pidfd >= 0:
            _kill(self._pidfd)
            _has_ended(self._pidfd, within_s=_END_CAP_S)
        if self.own_cgroup is not None:
            self.own_cgroup.remove()
        self.forget()

    def forget(self) -> None:
        """Let go of it, as a forked child must: it is the parent's. Here it counts as closed."""
        self._is_closed = True
        control, self._control = self._control, None
        pidfd, self._pidfd = self._pidfd, -1
        if control is not None:
            control.close()
        if pidfd >= 0:
            os.close(pidfd)

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        """A call or a transfer. It waits while the first process is renewed, and a box in use is not renewed."""
        while self.changing.locked() and not self._is_closed:
            async with self.changing:
                pass
        self._uses += 1
        try:
            yield
        finally:
            self._uses -= 1

    @property
    def is_used(self) -> bool:
        """Whether a call or a transfer is under way."""
        return self._uses > 0

    async def status(self) -> BoxStatus:
        """From the kernel: whether its first process lives."""
        if self._is_closed:
            return "stopped"
        if self.is_lost or self._pidfd < 0 or _has_ended(self._pidfd):
            return "lost"
        return "paused" if self._is_paused else "running"

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
        request = exec_client.ExecRequest(
            argv=[_SHELL, "-c", command] if isinstance(command, str) else list(command),
            cwd=os.path.join(self._spec.workdir, cwd) if cwd else self._spec.workdir,
            env={**_BASE_ENV, **self._spec.env, **(env or {})},
            uid=self._uid(user),
            stdin=stdin,
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            merge_stderr=merge_stderr,
            on_output=on_output,
            owner=self._provider.identity.agent,
        )
        try:
            async with self._used():
                with self._lost_or_closed():
                    result = await exec_client.run(await open_call(self._ready_control()), request)
            self.is_lost = self.is_lost or result.status == "lost"
            return self._explained(result)
        except exec_client.KillUnconfirmed as unconfirmed:
            await self.stop()
            return unconfirmed.result

    def _explained(self, result: ExecResult) -> ExecResult:
        """The result, with ``oom`` where the kernel's own count says that the box went beyond its memory limit.

        Where it was the host that ran out, the box counts as lost: what then came of the command says nothing.
        """
        if self.cgroup is None or result.status != "exited" or result.exit_code == 0 or not self.cgroup.has_killed():
            return result
        status = "oom" if self.cgroup.was_full else "lost"
        return result.model_copy(update={"status": status, "exit_code": None})

    def _uid(self, user: str | None) -> int | None:
        if user in (None, "agent", "1000"):
            return None
        if user != "root":
            raise CapabilityMissing(f"local boxes have no user {user!r}", remedy='use "agent" or "root"')
        if not self._provider.identity.has_range:
            raise CapabilityMissing(
                "a box made by an ordinary user has no root user", remedy="run swe_sdk as root, or use another provider"
            )
        return 0

    async def processes(self) -> list[Process]:
        """Everything that runs in it."""
        async with self._used():
            return await self.alive()

    async def alive(self) -> list[Process]:
        """The same, for who renews the box."""
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
                message, fds = await self._call({"op": "listen", "port": port})
        except _Refused as refused:
            raise SandboxError(f"no listener on port {port} of box {self._id}: {refused}") from None
        return int(message["port"]), socket.socket(fileno=fds[0])

    # -- files ------------------------------------------------------------------------------------------------------

    async def read(self, path: str) -> bytes:
        """The content of a regular file."""
        with _memory_file() as file:
            size = await self._copy_out(path, file, room=_FIRST_ROOM_BYTES, make_room=partial(_allocate, file))
            file.seek(0)
            return await to_thread.run_sync(file.read, size)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Create or replace a file."""
        with _memory_file() as file:
            await to_thread.run_sync(_fill, file, data)
            await self._transfer("write", path, file, mode=mode)

    async def upload(self, local: Path, remote: str) -> None:
        """Copy a file in."""
        with _DiskErrors(str(local)), Path(local).open("rb") as source:
            await self._transfer("write", remote, source, mode=os.fstat(source.fileno()).st_mode & 0o777)

    async def download(self, remote: str, local: Path) -> None:
        """Copy a file out."""
        half_made = Path(local).with_name(f".{new_id('part')}")
        with _DiskErrors(str(local)):
            try:
                with half_made.open("wb") as target:
                    await self._copy_out(remote, target, room=0, make_room=partial(_require_space, target))
                half_made.replace(local)
            finally:
                half_made.unlink(missing_ok=True)

    async def _copy_out(self, path: str, file: BinaryIO, *, room: int, make_room: Callable[[int], None]) -> int:
        """Fill ``file``, which has ``room`` bytes of room at first, and return how many it got.

        ``make_room`` makes more, or raises ``OSError``. How large a file of the box claims to be is the choice of its
        programs, and costs them nothing.
        """
        reply = await self._transfer("read", path, file, room=room, cut=False)
        if reply["ev"] == "larger":
            size = int(reply["size"])
            try:
                make_room(size)
            except OSError as error:
                raise TransferFailed(f"cannot read {path!r} of the sandbox, {size:,} bytes: {error.strerror}") from None
            reply = await self._transfer("read", path, file, room=size, cut=True)
        return int(reply["copied"])

    async def _transfer(self, operation: str, path: str, file: BinaryIO, **options: Any) -> dict[str, Any]:
        """Have the supervisor copy between a file of the box and one of ours."""
        message = {"op": operation, "path": os.path.join(self._spec.workdir, path), **options}
        try:
            async with self._used():
                reply, _fds = await self._call(message, [file.fileno()], timeout_s=_TRANSFER_TIMEOUT_S)
                return reply
        except _Refused as refused:
            if refused.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpace(f"no space left to {operation} {path!r}") from None
            raise TransferFailed(f"cannot {operation} {path!r} in the sandbox: {refused}") from None

    # -- calls to the supervisor ------------------------------------------------------------------------------------

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            reply, fds = await self._call(message)
        except _Refused as refused:
            raise SandboxError(f"{message['op']} failed in box {self._id}: {refused}") from None
        close_all(fds)
        return reply

    async def _call(
        self, message: dict[str, Any], fds: Sequence[int] = (), *, timeout_s: float = _CALL_TIMEOUT_S
    ) -> tuple[dict[str, Any], list[int]]:
        with self._lost_or_closed():
            with anyio.fail_after(timeout_s), await open_call(self._live_control()) as call:
                await call.send(message, fds)
                reply, received = await call.receive()
        if reply["ev"] == "error":
            close_all(received)
            raise _Refused(str(reply["error"]), reply.get("errno"))
        return reply, received

    def _ready_control(self) -> socket.socket:
        if self._is_paused:
            raise SandboxError(f"box {self._id} is paused", remedy="resume it first")
        return self._live_control()

    def _live_control(self) -> socket.socket:
        if self._is_closed:
            raise SandboxClosed(f"box {self._id} is closed")
        if self._control is None or self.is_lost:
            raise SandboxLost(f"box {self._id} is dead")
        return self._control

    def _lost_or_closed(self) -> _LostOrClosed:
        return _LostOrClosed(self)

    @property
    def is_paused(self) -> bool:
        """Whether we paused it."""
        return self._is_paused

    @property
    def is_closed(self) -> bool:
        """Whether we closed it."""
        return self._is_closed


class _LostOrClosed:
    """Tells a box that died from one that we closed under a running call."""

    def __init__(self, box: LocalBox) -> None:
        self._box = box

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, PeerGone | SandboxLost):
            if self._box.is_closed:
                raise SandboxClosed(f"box {self._box.id} was closed meanwhile") from None
            self._box.is_lost = True
            if isinstance(error, PeerGone):
                raise SandboxLost(f"box {self._box.id} died") from None
        if isinstance(error, TimeoutError):
            raise SandboxLost(f"box {self._box.id} did not answer within {_CALL_TIMEOUT_S:.0f} s") from None


class _Refused(Exception):
    """The supervisor could not do it; ``errno`` says why."""

    def __init__(self, text: str, number: int | None) -> None:
        super().__init__(text)
        self.errno = number


class _DiskErrors:
    """Turns errors of the local file system into ours."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpace(f"no space left while copying {self._path}") from error
            raise TransferFailed(f"cannot copy {self._path}: {error}") from error


def _memory_file() -> BinaryIO:
    return os.fdopen(os.memfd_create("transfer", os.MFD_CLOEXEC), "w+b")


def _allocate(file: BinaryIO, size: int) -> None:
    """Take the memory here: what the supervisor took would count as its box's, and might be its end."""
    if size > _READ_LIMIT_BYTES:
        raise OSError(errno.EFBIG, f"more than {_READ_LIMIT_BYTES:,} are downloaded, not read")
    os.posix_fallocate(file.fileno(), 0, size)


def _require_space(file: BinaryIO, size: int) -> None:
    disk = os.fstatvfs(file.fileno())
    if size > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.EFBIG, "more than the disk has left")


def _fill(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    file.seek(0)


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _has_ended(pidfd: int, *, within_s: float = 0.0) -> bool:
    """Whether a process, by its pidfd, has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(within_s * 1000))
