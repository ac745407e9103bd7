"""One box of the local provider."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from swe_sdk.errors import CapabilityMissing, CreateFailed, SandboxError
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.sandbox.contract import BoxStatus, SandboxSpec
from swe_sdk.sandbox.exec_client import RunAs
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup
from swe_sdk.sandbox.providers.local.records import ImageFacts
from swe_sdk.sandbox.providers.local.skeleton import HOME
from swe_sdk.sandbox.supervised import BASE_ENV, SupervisedBox
from swe_sdk.sandbox.waiting import has_ended, readable

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

_STOP_CAP_S = 20.0
_END_CAP_S = 2.0
_ENV = {**BASE_ENV, "HOME": HOME, "USER": "agent", "LOGNAME": "agent"}
_SHELL = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class LocalBox(SupervisedBox):
    """A box on user namespaces. Made by ``LocalProvider.create``."""

    def __init__(self, provider: LocalProvider, spec: SandboxSpec, chain: tuple[str, ...], box_id: str) -> None:
        super().__init__(spec, box_id)
        self._provider = provider
        self.shell = _SHELL
        self.env = _ENV
        self.chain = chain
        """What it stands on: the layers below its own, from the top down."""
        self.named_by = spec.snapshot
        """A snapshot that names all layers which it needs; None where there may be none."""
        self.image: ImageFacts | None = None
        """The container image at the bottom; None = the host's system."""
        self.path = Path()
        self._pidfd = -1
        self.cgroup: BoxCgroup | None = None
        """Where its memory is counted: its own group, or the one that it shares."""
        self.own_cgroup: BoxCgroup | None = None
        self.uses = 0
        """How many calls and transfers are under way."""
        self.freezing = anyio.Lock()
        """Held while a snapshot is made of it."""
        self.changing = anyio.Lock(fast_acquire=True)
        """Held while its first process is ended or renewed."""

    def stand_on(self, image: ImageFacts | None) -> None:
        """Take the shell and the variables of an image, if there is one."""
        self.image = image
        if image is not None:
            self.shell = image.shell
            self.env = {**_ENV, **image.env}

    async def start(self, root: dict[str, Any], id_map: str | None) -> None:
        """Bring up its first process on the layers that ``root`` names."""
        born = await self._provider.zygote_of(self).create({"spec": root, "id_map": id_map})
        self._pidfd = born.pidfd
        self._serve_by(born.control, born.call)
        self.is_lost = False
        if self.own_cgroup is not None:
            await self._put_into(self.own_cgroup)

    async def _put_into(self, group: BoxCgroup) -> None:
        try:
            group.add(_pid(self._pidfd))
        except OSError as error:
            await self.stop()
            raise CreateFailed(f"box {self._id} could not be put under its limits: {error}") from error

    async def stop(self) -> None:
        """Kill every process in it, and wait until the kernel has taken all of it down, mounts included."""
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
            self._serve_by(None)

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
                what = self.path, self.chain, self.named_by
                if not self._provider.store.discard_at_once(*what):
                    await to_thread.run_sync(self._provider.store.discard, *what)
                self._provider.boxes.pop(self._id, None)

    def end(self) -> None:
        """Kill it at the end of this process, where no event loop runs any more, and wait for that a moment."""
        if self._pidfd >= 0:
            _kill(self._pidfd)
            has_ended(self._pidfd, within_s=_END_CAP_S)
        if self.own_cgroup is not None:
            self.own_cgroup.remove()
        self.forget()

    def forget(self) -> None:
        """Let go of it, as a forked child must: it is the parent's. Here it counts as closed."""
        self._is_closed = True
        pidfd, self._pidfd = self._pidfd, -1
        self._serve_by(None)
        if pidfd >= 0:
            os.close(pidfd)

    def _used(self) -> _Use:
        return _Use(self)

    @property
    def is_used(self) -> bool:
        """Whether a call or a transfer is under way."""
        return self.uses > 0

    async def status(self) -> BoxStatus:
        """From the kernel: whether its first process lives."""
        if self._is_closed:
            return "stopped"
        if self.is_lost or self._pidfd < 0 or has_ended(self._pidfd):
            return "lost"
        return "paused" if self._is_paused else "running"

    def _explained(self, result: ExecResult) -> ExecResult:
        """The result, with ``oom`` where the kernel's own count says that the box went beyond its memory limit.

        Where it was the host that ran out, the box counts as lost: what then came of the command says nothing.
        """
        if self.cgroup is None or result.status != "exited" or result.exit_code == 0 or not self.cgroup.has_killed():
            return result
        status = "oom" if self.cgroup.was_full else "lost"
        return result.model_copy(update={"status": status, "exit_code": None})

    def _user(self, user: str | None) -> int | None:
        if user in (None, "agent", "1000"):
            return None
        if user != "root":
            raise CapabilityMissing(f"local boxes have no user {user!r}", remedy='use "agent" or "root"')
        if not self._provider.identity.has_range:
            raise CapabilityMissing(
                "a box made by an ordinary user, or by bubblewrap, has no root user",
                remedy="run swe_sdk as root, or use another provider",
            )
        return 0

    def _stream_owner(self, run_as: RunAs | None) -> int | None:
        return self._provider.identity.agent


class _Use:
    """A call or a transfer. It waits while the first process is renewed, and a box in use is not renewed.

    A class and no generator, which would take a twentieth of a short command.
    """

    def __init__(self, box: LocalBox) -> None:
        self._box = box

    async def __aenter__(self) -> None:
        if self._box.changing.locked() and not self._box.is_closed:
            async with self._box.changing:
                self._box.uses += 1  # at once: the next who waits already holds the lock when this one has left it
        else:
            self._box.uses += 1

    async def __aexit__(self, *_exception: object) -> None:
        self._box.uses -= 1


def _pid(pidfd: int) -> int:
    """Of the process, as it is known here: its maker may live in another pid namespace."""
    fields = Path(f"/proc/self/fdinfo/{pidfd}").read_text().split()
    return int(fields[fields.index("Pid:") + 1])


def _kill(pidfd: int) -> None:
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
