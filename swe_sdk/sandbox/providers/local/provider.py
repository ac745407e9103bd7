"""The embedded provider: rootless, daemonless, a few milliseconds a box."""

from __future__ import annotations

import atexit
import errno
import os
import platform
import resource
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from anyio import to_thread

from swe_sdk.errors import (
    CapabilityMissing,
    CreateFailed,
    NoSpace,
    ProviderUnavailable,
    SandboxClosed,
    SandboxError,
    SweError,
)
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.paths import state_dir
from swe_sdk.sandbox.boxside.root import RootSpec
from swe_sdk.sandbox.contract import (
    Box,
    Capability,
    Enforcement,
    Limits,
    Mount,
    ProviderHealth,
    SandboxSpec,
    Snapshot,
    Toolchain,
)
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup, Cgroups
from swe_sdk.sandbox.providers.local.freezing import freeze
from swe_sdk.sandbox.providers.local.identity import current_identity
from swe_sdk.sandbox.providers.local.layers import UPPER, WORK, LayerStore
from swe_sdk.sandbox.providers.local.skeleton import ensure_skeleton, host_mounts
from swe_sdk.sandbox.providers.local.toolchain import find_toolchain
from swe_sdk.sandbox.providers.local.zygote import Zygote

_CAPABILITIES: frozenset[Capability] = frozenset({"snapshots", "pause", "streaming", "listen", "processes", "build"})
_RLIMITS = {"core": 0}
_DEFAULT_MEMORY_MIB = max(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4 >> 20)
_DEFAULT_PIDS = 4096
_DEFAULT_SHARED_BYTES = 1 << 30
"""Of /dev/shm. What lies there outlives its programs, so that nothing but closing the box gives it back."""


class LocalProvider:
    """Boxes out of user namespaces and overlayfs, kept under ``state`` (default: :func:`swe_sdk.paths.state_dir`).

    One object may serve several event loops and threads. Boxes, snapshots and built environments of a state directory
    are shared by all processes that use it; the boxes of a process end with it, however it ends.
    """

    name = "local"
    capabilities = _CAPABILITIES

    def __init__(self, state: str | Path | None = None) -> None:
        self._state = Path(state).absolute() if state is not None else state_dir()
        self._store: LayerStore | None = None
        self._opening = threading.Lock()
        self._health: ProviderHealth | None = None
        self.identity = current_identity()
        self.cgroups = Cgroups.find()
        self.boxes: dict[str, LocalBox] = {}

    @property
    def state(self) -> Path:
        """The state directory."""
        return self._state

    @property
    def store(self) -> LayerStore:
        """The layers on disk; opened on first use, which also sweeps up after dead processes."""
        with self._opening:
            if self._store is None:
                self._store = self._open()
                _open_providers.add(self)
            return self._store

    def _open(self) -> LayerStore:
        try:
            store = LayerStore(self._state, self.identity)
            store.sweep()
            if self.cgroups is not None:
                self.cgroups.sweep()
            self.zygote = Zygote(self._state / "zygote.log", self._common_group(store.owner))
        except OSError as error:
            raise _unusable(self._state, error) from error
        return store

    async def probe(self) -> ProviderHealth:
        """Make a box, run a program in it, and close it. A success is remembered."""
        if self._health is None or not self._health.works:
            self._health = await self._probe()
        return self._health

    async def _probe(self) -> ProviderHealth:
        details = {
            "state": str(self._state),
            "kernel": platform.release(),
            "users": "a range of ids" if self.identity.has_range else "the caller's own id",
            "control groups": f"version {self.cgroups.version}" if self.cgroups else "none that this user may make",
        }
        limits = self._enforcement()
        if sys.platform != "linux":
            return ProviderHealth(provider=self.name, works=False, reason="it needs Linux", remedy="use docker")
        try:
            result = await self._try_a_box()
        except (SweError, OSError) as error:
            reason, remedy = (error.message, error.remedy) if isinstance(error, SweError) else (str(error), "")
            return ProviderHealth(provider=self.name, works=False, reason=reason, remedy=remedy, details=details)
        works = result.stdout == "works\n"
        reason = "" if works else f"a program in a box {result.summary}: {result.stderr.strip()}"
        return ProviderHealth(provider=self.name, works=works, reason=reason, details=details, limits=limits)

    async def _try_a_box(self) -> ExecResult:
        """What a program in a box comes to; tried again if the box died: one accident says nothing of a machine."""
        try:
            return await self._run_in_new_box()
        except SandboxError:
            return await self._run_in_new_box()

    async def _run_in_new_box(self) -> ExecResult:
        box = await self.create(SandboxSpec())
        try:
            return await box.exec(["/bin/sh", "-c", "echo works"], cwd="/", timeout_s=20)
        finally:
            await box.close()

    def _enforcement(self) -> dict[str, Enforcement]:
        def by_group(controller: str, otherwise: Enforcement) -> Enforcement:
            return "enforced" if self.cgroups is not None and self.cgroups.controls(controller) else otherwise

        return {
            "memory_mib": by_group("memory", "watched"),
            "cpus": by_group("cpu", "unavailable"),
            "pids": "enforced",
            "file_size_bytes": "enforced",
            "open_files": "enforced",
        }

    async def create(self, spec: SandboxSpec) -> Box:
        """A new box on the host's /usr, or on a snapshot of this provider."""
        if spec.image is not None:
            raise CapabilityMissing(
                f"the local provider cannot run the container image {spec.image!r}", remedy="use --provider docker"
            )
        chain: tuple[str, ...] = ()
        if spec.snapshot is not None:
            chain = self.store.snapshot(spec.snapshot).chain
        box = LocalBox(self, spec, chain, new_id("box"))
        try:
            box.path = self.store.new_box(box.id, chain)
        except OSError as error:
            raise _unusable(self._state, error) from error
        self.boxes[box.id] = box
        try:
            self._limit(box)
            await self.start_box(box)
        except BaseException:
            await box.close()
            raise
        return box

    def _common_group(self, owner: str) -> BoxCgroup | None:
        """The group of the zygote, and so of every box that has no limits of its own: it guards the host's memory."""
        if self.cgroups is None:
            return None
        return self.cgroups.create(f"box-{owner}", Limits(memory_mib=_DEFAULT_MEMORY_MIB))

    def _limit(self, box: LocalBox) -> None:
        """Put a box with limits of its own into a group of its own. The kernel takes a millisecond for that."""
        limits = box.spec.limits
        if self.cgroups is None or not (limits.memory_mib or limits.cpus or limits.pids):
            box.cgroup = self.zygote.cgroup
            return
        try:
            memory_mib = limits.memory_mib or _DEFAULT_MEMORY_MIB  # it leaves the group that guards the host's memory
            limits = limits.model_copy(update={"memory_mib": memory_mib})
            box.own_cgroup = box.cgroup = self.cgroups.create(box.id, limits)
        except OSError as error:
            raise CreateFailed(f"no control group for a box: {error}") from error

    async def start_box(self, box: LocalBox) -> None:
        """Bring up a box's first process on the layers that it stands on."""
        memory_bytes = (box.spec.limits.memory_mib or _DEFAULT_MEMORY_MIB) << 20
        is_kernels = self.cgroups is not None and self.cgroups.controls("memory")
        mounts = _merge(host_mounts(), box.spec.mounts)
        has_network = box.spec.network == "host"
        skeletons = self.store.root / "skeletons"
        skeleton = ensure_skeleton(skeletons, self.store.scratch, mounts, has_network, self.identity)
        home = os.path.relpath(box.path, self._state)
        root = RootSpec(
            state=str(self._state),
            lowers=[*(f"layers/{layer}/diff" for layer in box.chain), f"skeletons/{skeleton}"],
            upper=f"{home}/{UPPER}",
            work=f"{home}/{WORK}",
            binds=[mount.model_dump() for mount in mounts],
            network=box.spec.network,
            id_range=self.identity.has_range,
            rlimits=_rlimits(box.spec.limits, own_user=self.identity.has_range),
            workdir=box.spec.workdir,
            shared_memory_bytes=memory_bytes // 2 if box.spec.limits.memory_mib else _DEFAULT_SHARED_BYTES,
            memory_bytes=None if is_kernels else memory_bytes,
        )
        await box.start(root._asdict(), self.identity.id_map)

    async def snapshot(self, box: Box) -> Snapshot:
        """Rename the box's layer where nothing runs in it, the same time for any size; copy it where it is paused."""
        if not isinstance(box, LocalBox) or box.is_closed:
            raise SandboxClosed("only a live box of this provider can be frozen")
        return (await freeze(self, box)).public

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot; layers that nothing needs are deleted."""
        await to_thread.run_sync(self.store.delete_snapshot, snapshot_id)

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots in the state directory."""
        return [record.public for record in self.store.snapshots()]

    async def toolchain(self, python: str | None, tools: Sequence[str]) -> Toolchain:
        """A Python and programs of this machine; see :mod:`swe_sdk.sandbox.providers.local.toolchain`."""
        return await to_thread.run_sync(find_toolchain, python, tools, self._state / "pythons")

    async def aclose(self) -> None:
        """Close all boxes and end the zygote. The provider may be used again."""
        for box in list(self.boxes.values()):
            await box.close()
        self._end()

    def _end(self) -> None:
        _open_providers.discard(self)
        store, self._store = self._store, None
        for box in self.boxes.values():
            box.end()
        self.boxes.clear()
        if store is not None:
            self.zygote.close()
            if self.zygote.cgroup is not None:
                self.zygote.cgroup.remove()
            store.close()

    def _forget(self) -> None:
        _open_providers.discard(self)
        self._opening = threading.Lock()
        store, self._store = self._store, None
        for box in self.boxes.values():
            box.forget()
        self.boxes.clear()
        if store is not None:
            self.zygote.forget()
            store.forget()


def _merge(first: tuple[Mount, ...], second: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Both lists; a target named twice goes to the later."""
    return tuple({mount.target: mount for mount in (*first, *second)}.values())


def _rlimits(limits: Limits, *, own_user: bool) -> dict[str, int]:
    wanted = {"nproc": limits.pids or _DEFAULT_PIDS, "fsize": limits.file_size_bytes}
    wanted["nofile"] = limits.open_files or (None if own_user else _open_files_limit())
    return {**_RLIMITS, **{name: value for name, value in wanted.items() if value is not None}}


def _open_files_limit() -> int:
    """Fewer than this process may have open.

    Descriptors on their way through sockets are counted for each user of the host, against the limit of whoever sends.
    Where the programs in a box are the same user as we are, they could otherwise use up the count, and keep us from
    talking to any box.
    """
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(256, min(soft, 1 << 20) - 128)


def _unusable(state: Path, error: OSError) -> SweError:
    kind = NoSpace if error.errno in (errno.ENOSPC, errno.EDQUOT) else ProviderUnavailable
    remedy = "set SWE_SDK_STATE to a directory that you may write, on a disk with space left"
    return kind(f"the state directory {state} cannot be used: {error}", remedy=remedy)


_open_providers: set[LocalProvider] = set()
"""Those that hold something which must be given back when this process ends, even if nobody else knows them."""


@atexit.register
def _at_exit() -> None:
    for provider in list(_open_providers):
        provider._end()


def _after_fork() -> None:
    for provider in list(_open_providers):
        provider._forget()


os.register_at_fork(after_in_child=_after_fork)
