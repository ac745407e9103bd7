"""One box of the Docker provider."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from swe_sdk.errors import SandboxLost, SandboxOutOfMemory
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox import users
from swe_sdk.sandbox.admission import Slot
from swe_sdk.sandbox.closing import end_leased
from swe_sdk.sandbox.contract import BoxStatus, SandboxSpec
from swe_sdk.sandbox.exec_client import RunAs
from swe_sdk.sandbox.leases import Lease
from swe_sdk.sandbox.providers.docker.container import Image, container_name
from swe_sdk.sandbox.providers.docker.losses import ran_out_of_memory
from swe_sdk.sandbox.providers.docker.memory import memory_group
from swe_sdk.sandbox.providers.docker.removal import remove_container
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup
from swe_sdk.sandbox.supervised import BASE_ENV, RefusedCall, SupervisedBox
from swe_sdk.sandbox.waiting import has_ended, readable

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.docker.provider import DockerProvider

_END_S = 2.0
"""Between the end of a supervisor's socket and its own."""
_MOST_CUSTOMS = 1000


class DockerBox(SupervisedBox):
    """A container, whose process 1 is our supervisor. Made by ``DockerProvider.create``."""

    def __init__(self, provider: DockerProvider, spec: SandboxSpec, image: Image, lease: Lease) -> None:
        super().__init__(spec, lease.id)
        self._provider = provider
        self._slot: Slot | None = None
        self.lease = lease
        self.image = image
        self.container = container_name(lease)
        """Name or id of the container; by either the engine finds it."""
        self.env = {**BASE_ENV, **image.env}
        self._pidfd = -1
        self._memory: BoxCgroup | None = None
        self._out_of_memory: bool | None = None
        self._default: RunAs | None = None
        self._uses = 0
        self.freezing = anyio.Lock()
        """Held while a snapshot is made of it."""
        self._ending = anyio.Lock()

    async def begin(self, control: socket.socket, pid: int) -> None:
        """Use what has arrived: the supervisor's control socket, and its pid on this machine."""
        self._serve_by(control)
        self._pidfd = os.pidfd_open(pid)  # it is connected, so this is the process that the engine has named
        self._memory = memory_group(pid)
        customs = self._provider.customs
        if self.image.id not in customs:
            if len(customs) >= _MOST_CUSTOMS:
                customs.clear()
            customs[self.image.id] = await self._look_around()
        shell, user = customs[self.image.id]
        self.shell = shell
        self.env = {**BASE_ENV, **user.env, **self.image.env}
        is_plain_root = (user.uid, user.gid) == (0, 0) and set(user.groups) <= {0}
        self._default = None if is_plain_root else user  # root's programs start by vfork, others' take a change of user
        self.owner = (user.uid, user.gid)

    async def hand_out(self, spec: SandboxSpec, slot: Slot) -> None:
        """Give it to whoever asked for ``spec`` and has a place for it."""
        self._spec, self._slot = spec, slot
        try:
            await self._call({"op": "mkdir", "path": self._spec.workdir, "owner": self.owner})
        except RefusedCall:
            pass  # a file is in its place: commands will say so

    async def _look_around(self) -> tuple[str, RunAs]:
        """The shell of the image, and whom it names as its user. No program of the box runs for that."""
        user = await users.look_up(self.image.user or "root", self.read)
        return "/bin/bash" if await self._has("/bin/bash") else "/bin/sh", user

    async def _has(self, path: str) -> bool:
        """Whether there is a file, by asking to read nothing of it."""
        with open(os.devnull, "wb") as nothing:
            try:
                await self._call({"op": "read", "path": path, "room": 0, "cut": False}, [nothing.fileno()])
            except RefusedCall:
                return False
        return True

    # -- its end ----------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Kill every process in it, by killing the container."""
        self._let_go()
        self.is_lost = True
        await remove_container(self._provider.engine, self.container)

    async def close(self) -> None:
        """Remove the container. Runs to its end even if the caller is cancelled.

        Where the engine does not answer the box counts as closed all the same: its lease stays, for the reaper.
        """
        with anyio.CancelScope(shield=True):
            async with self._ending:
                if self._is_closed:
                    return
                self._is_closed = True
                try:
                    await end_leased(self._id, self.stop, self._provider.leases, self.lease)
                finally:
                    if self._slot is not None:
                        self._slot.release()
                    self._provider.boxes.pop(self._id, None)

    def forget(self) -> None:
        """Let go of it, as a forked child must: it is the parent's. Here it counts as closed."""
        self._is_closed = True
        self._let_go()

    def _let_go(self) -> None:
        """Of the supervisor, which ends by that, and the container with it."""
        self._serve_by(None)
        pidfd, self._pidfd = self._pidfd, -1
        if pidfd >= 0:
            os.close(pidfd)

    async def status(self) -> BoxStatus:
        """From the kernel: whether the supervisor lives, with which its container does. No engine need be asked."""
        if self._is_closed:
            return "stopped"
        if self.is_lost or self._pidfd < 0 or has_ended(self._pidfd):
            return "lost"
        return "paused" if self._is_paused else "running"

    # -- commands ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        async with self._provider.admission.exec(self._id):
            yield

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        """A call or a transfer. It waits while the box is being frozen, and a box in use is not frozen."""
        while self.freezing.locked() and not self._is_closed:
            async with self.freezing:
                pass
        self._uses += 1
        try:
            yield
        except SandboxLost as lost:
            raise await self._cause(lost) from None
        finally:
            self._uses -= 1

    @property
    def is_used(self) -> bool:
        """Whether a call or a transfer is under way."""
        return self._uses > 0

    async def _run_as(self, user: str | None) -> RunAs | None:
        if user in (None, "agent"):
            return self._default
        return await users.look_up(user, self.read)

    def _stream_owner(self, run_as: RunAs | None) -> int | None:
        """Root may give the streams away; without that, other users' programs could not open /dev/stdout."""
        return run_as.uid if run_as is not None and os.geteuid() == 0 else None

    async def _explained_loss(self, result: ExecResult) -> ExecResult:
        """The kernel may have taken the supervisor last, where programs had filled the box's memory: their doing."""
        is_oom = not self._is_closed and await self._died_of_memory()
        return result.model_copy(update={"status": "oom"}) if is_oom else result

    async def _cause(self, lost: SandboxLost) -> SandboxLost:
        if self._is_closed or not await self._died_of_memory():
            return lost
        return SandboxOutOfMemory(f"box {self._id} died: its programs had filled its memory")

    async def _died_of_memory(self) -> bool:
        """Whether it is dead, and of that. One that merely does not answer may yet die of anything."""
        if self._out_of_memory is None and self._pidfd >= 0:
            with anyio.move_on_after(_END_S) as waiting:
                await readable(self._pidfd)
            if not waiting.cancelled_caught:
                since = self.lease.created_at
                self._out_of_memory = await ran_out_of_memory(self._provider.engine, self.container, since)
        return bool(self._out_of_memory)

    def _explained(self, result: ExecResult) -> ExecResult:
        """The result, with ``oom`` where the kernel's own count says that the box went beyond its memory limit.

        Where it was the host that ran out, the box counts as lost: what then came of the command says nothing.
        """
        group = self._memory
        if group is None or result.status != "exited" or result.exit_code == 0 or not group.has_killed():
            return result
        return result.model_copy(update={"status": "oom" if group.was_full else "lost", "exit_code": None})
