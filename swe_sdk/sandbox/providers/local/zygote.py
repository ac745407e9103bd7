"""The SDK's side of the zygote: started when the first box is wanted, ends with this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from swe_sdk.errors import CreateFailed, SandboxError, SweError
from swe_sdk.sandbox import boxside
from swe_sdk.sandbox.boxside import frames
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup
from swe_sdk.sandbox.providers.local.diagnosis import explain, explain_merge, explain_unpack
from swe_sdk.sandbox.waiting import readable
from swe_sdk.sandbox.wire import Call, PeerGone, close_all, open_call

CREATE_TIMEOUT_S = 30.0
_MAX_LAYERS = 500
_FRAME_BYTES = 1 << 12
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from boxside import zygote; zygote.main(int(sys.argv[2]))"


class UnpackLimits(NamedTuple):
    """What a layer of an image must be."""

    digest: str
    """Of the unpacked archive: ``sha256:...``."""
    limit_bytes: int
    limit_entries: int


class Born(NamedTuple):
    """A box that serves; all three are the caller's."""

    pidfd: int
    """Of its first process."""
    control: socket.socket
    """Which it serves; does not block."""
    call: Call
    """A first connection to it."""


class Zygote:
    """A process that clones boxes. Any event loop and any thread may use it; it holds no loop's objects."""

    _program = _PROGRAM
    _arguments: tuple[str, ...] = ()

    def __init__(self, log: Path, cgroup: BoxCgroup | None) -> None:
        self._log = log
        self.cgroup = cgroup
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()

    @property
    def max_layers(self) -> int:
        """How deep a chain may be: the kernel stops there."""
        return _MAX_LAYERS

    async def create(self, message: dict[str, Any]) -> Born:
        """Make a box.

        Raises ``CreateFailed``, or ``ProviderUnavailable`` where this machine refuses what it takes.
        """
        try:
            with anyio.move_on_after(CREATE_TIMEOUT_S):
                return await self._create(message)
            raise CreateFailed(f"no box after {CREATE_TIMEOUT_S:.0f} s", remedy="is the machine overloaded?")
        except PeerGone:
            # one box's first process may have died young; the zygote itself is renewed by the next create if it did
            raise CreateFailed("the box died while it was made", remedy=f"see {self._log}; try again") from None

    async def _create(self, message: dict[str, Any]) -> Born:
        return await self._ask(message)

    async def _ask(self, message: dict[str, Any], *fds: int) -> Born:
        """Ask for a box, and wait until it serves."""
        control, theirs = socket.socketpair()
        control.setblocking(False)
        call, pidfds = None, list[int]()
        try:
            with theirs:
                call = await open_call(self._started())
                await call.send(message, [theirs.fileno(), *fds])
            reply, _fds = await call.receive()
            # Sent before its first process began, but not where we wait: one word less that wakes us.
            pidfds = _received(control)
            if reply["ev"] == "failed":
                raise self._explain(reply, is_there=bool(pidfds))
            if not pidfds:  # it was sent, and this process could not take one more descriptor
                raise CreateFailed("too many files are open", remedy="raise the limit (ulimit -n), or have fewer boxes")
            return Born(pidfds[0], control, call)
        except BaseException:
            control.close()
            if call is not None:
                call.close()
            close_all(pidfds)
            raise

    def _explain(self, reply: dict[str, Any], *, is_there: bool) -> SweError:
        """Why there is no box; ``is_there``: its first process says so."""
        return explain(str(reply.get("error")), reply.get("errno"))

    async def merge(self, state: Path, layers: Sequence[str], target: str, id_map: str | None) -> None:
        """Merge layers into the empty directory ``target``, all of them below ``state``; see ``boxside.merging``.

        Raises ``NoSpace`` or ``SandboxError``. Whatever it raises, nothing writes to ``target`` any more afterwards.
        """
        message = {"layers": list(layers), "target": target, "id_map": id_map}
        failed = await self._work(message, state)
        if failed is not None:
            raise explain_merge(str(failed["error"]), failed["errno"])

    async def unpack(self, blob: int, target: Path, limits: UnpackLimits, id_map: str | None) -> None:
        """Unpack a layer of an image into the empty directory ``target``; see ``boxside.unpacking``.

        ``blob`` is a descriptor of the archive, at its beginning. Raises ``NoSpace`` or ``CreateFailed``. Whatever it
        raises, nothing writes to ``target`` any more afterwards.
        """
        failed = await self._work({"id_map": id_map, **limits._asdict()}, target, blob)
        if failed is not None:
            raise explain_unpack(limits.digest, str(failed["error"]), failed["errno"])

    async def require_unpacking(self) -> None:
        """``CapabilityMissing`` where it cannot."""

    async def _work(self, message: dict[str, Any], directory: Path, *fds: int) -> dict[str, Any] | None:
        """Have a process do something in a directory; what it reports if it fails. Nothing of it goes on afterwards."""
        within = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        pidfds: list[int] = []
        try:
            with await open_call(self._started()) as call:
                with anyio.CancelScope(shield=True):  # until there is a pidfd, nothing could end it
                    await call.send(message, [within, *fds])
                    reply, pidfds = await call.receive()
                if reply["ev"] == "created":
                    reply, _fds = await call.receive()
            return reply if reply["ev"] == "failed" else None
        except PeerGone:
            raise SandboxError("the process that copies a layer died", remedy=f"see {self._log}; try again") from None
        finally:
            os.close(within)
            with anyio.CancelScope(shield=True):
                for pidfd in pidfds:
                    await _end(pidfd)

    def _started(self) -> socket.socket:
        """The control socket of a zygote that is alive."""
        with self._starting:
            if self._control is None or (self._process is not None and self._process.poll() is not None):
                self._start()
            assert self._control is not None
            return self._control

    def _start(self) -> None:
        self.close()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        program = [sys.executable, "-I", "-S", "-B", "-c", self._program]
        arguments = [str(Path(boxside.__file__).parent.parent), str(theirs.fileno()), *self._arguments]
        with theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*program, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
        self._control = ours
        if self.cgroup is not None:
            self.cgroup.add(self._process.pid)

    def close(self) -> None:
        """End it, and every box with it."""
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def forget(self) -> None:
        """In a forked child: the zygote and its boxes are the parent's; hold no end of its socket."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.returncode = 0  # not our child: nothing to wait for
            self._process = None


def _received(control: socket.socket) -> list[int]:
    try:
        _frame, fds = frames.receive(control, _FRAME_BYTES)
    except (BlockingIOError, ConnectionResetError):
        return []
    return fds


async def _end(pidfd: int) -> None:
    """Kill a process, and wait until it is gone."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        await readable(pidfd)
    except ProcessLookupError:
        pass  # it has ended and was collected already
    finally:
        os.close(pidfd)
