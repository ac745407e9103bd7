"""The embedded provider: rootless, daemonless, a few milliseconds a box."""

from __future__ import annotations

import atexit
import errno
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from anyio import to_thread

from swe_sdk.errors import (
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
    Limits,
    Mount,
    PartSource,
    ProviderHealth,
    SandboxSpec,
    Snapshot,
    SnapshotParts,
    Toolchain,
)
from swe_sdk.sandbox.providers.local import exporting
from swe_sdk.sandbox.providers.local.bounds import (
    DEFAULT_MEMORY_MIB,
    DEFAULT_SHARED_BYTES,
    enforcement,
    in_bytes,
    rlimits,
)
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.bubblewrap import BubblewrapZygote
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup, Cgroups
from swe_sdk.sandbox.providers.local.engines import AutoZygote, Engine, chosen_engine, engine_details
from swe_sdk.sandbox.providers.local.freezing import freeze
from swe_sdk.sandbox.providers.local.identity import current_identity
from swe_sdk.sandbox.providers.local.images import LocalImages, describe
from swe_sdk.sandbox.providers.local.layers import UPPER, WORK, LayerStore
from swe_sdk.sandbox.providers.local.leftovers import is_box_left, is_group_left, owned_boxes
from swe_sdk.sandbox.providers.local.records import SnapshotRecord
from swe_sdk.sandbox.providers.local.skeleton import (
    ensure_mount_points,
    ensure_skeleton,
    host_mounts,
    network_mounts,
)
from swe_sdk.sandbox.providers.local.toolchain import find_toolchain
from swe_sdk.sandbox.providers.local.zygote import Zygote
from swe_sdk.sandbox.reaping import OwnedBox
from swe_sdk.sandbox.trial import require_works

_CAPABILITIES: frozenset[Capability] = frozenset(
    {"snapshots", "pause", "streaming", "listen", "processes", "build", "export"}
)


class LocalProvider:
    """Boxes out of user namespaces and overlayfs, kept under ``state`` (default: :func:`swe_sdk.paths.state_dir`).

    One object may serve several event loops and threads. Boxes, snapshots and built environments of a state directory
    are shared by all processes that use it; the boxes of a process end with it, however it ends.
    """

    name = "local"
    capabilities = _CAPABILITIES

    def __init__(self, state: str | Path | None = None, *, engine: Engine | None = None) -> None:
        """``engine``: what makes the boxes, see ``engines``; None = ``$SWE_SDK_LOCAL_ENGINE``, else "auto"."""
        self._engine = chosen_engine(engine)
        self._state = Path(state).absolute() if state is not None else state_dir()
        self._store: LayerStore | None = None
        self._opening = threading.Lock()
        self._health: ProviderHealth | None = None
        self.identity = current_identity(only_agent=self._engine == "bwrap")
        self.cgroups = Cgroups.find()
        self.boxes: dict[str, LocalBox] = {}
        self._images = LocalImages(self)

    @property
    def state(self) -> Path:
        """The state directory."""
        return self._state

    @property
    def settings(self) -> dict[str, str]:
        """What another process needs to reap here."""
        return {"state": str(self._state)}

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
            self._prepare(store)
        except OSError as error:
            raise _unusable(self._state, error) from error
        return store

    def _prepare(self, store: LayerStore) -> None:
        """What it takes beside the store."""
        self.zygote = self._new_zygote(self._common_group(store.owner))

    def _new_zygote(self, group: BoxCgroup | None) -> Zygote:
        log = self._state / "zygote.log"
        userns = Zygote(log, group)
        if self._engine == "userns" or (self._engine == "auto" and os.geteuid() == 0):
            return userns
        bwrap = BubblewrapZygote(log, group, state=self._state, agent=self.identity.agent)
        if self._engine == "bwrap":
            return bwrap
        return AutoZygote(userns, bwrap, partial(require_works, self._run_in_new_box))

    def zygote_of(self, box: LocalBox) -> Zygote:
        """What made a box, or is about to."""
        return self.zygote

    @property
    def _zygotes(self) -> Sequence[Zygote]:
        """All that an open provider has."""
        return (self.zygote,)

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
            "container images": describe(),
            "control groups": f"version {self.cgroups.version}" if self.cgroups else "none that this user may make",
        }
        limits = enforcement(self.cgroups)
        if sys.platform != "linux":
            return ProviderHealth(provider=self.name, works=False, reason="it needs Linux", remedy="use docker")
        try:
            await require_works(self._run_in_new_box)
            details |= engine_details(self.zygote)
        except (SweError, OSError) as error:
            reason, remedy = (error.message, error.remedy) if isinstance(error, SweError) else (str(error), "")
            return ProviderHealth(provider=self.name, works=False, reason=reason, remedy=remedy, details=details)
        return ProviderHealth(provider=self.name, works=True, details=details, limits=limits)

    async def _run_in_new_box(self) -> ExecResult:
        box = await self.create(SandboxSpec())
        try:
            return await box.exec(["/bin/sh", "-c", "echo works"], cwd="/", timeout_s=20)
        finally:
            await box.close()

    async def create(self, spec: SandboxSpec) -> Box:
        """A new box on the host's /usr, on a container image, or on a snapshot of this provider."""
        box = await self._planned(spec)
        try:
            box.path = self.store.new_box(box.id, box.chain)
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

    async def _planned(self, spec: SandboxSpec) -> LocalBox:
        """A box that knows the layers it is to stand on, and has nothing yet."""
        below: SnapshotRecord | None = None
        if spec.snapshot is not None:
            below = self.store.snapshot(spec.snapshot)
        elif spec.image is not None:
            below = await self._images.ensure(spec.image)
        box = LocalBox(self, spec, below.chain if below else (), new_id("box"))
        if below is not None:
            box.named_by = below.id
            box.stand_on(below.image)
        return box

    def _common_group(self, owner: str) -> BoxCgroup | None:
        """The group of the zygote, and so of every box that has no limits of its own: it guards the host's memory."""
        if self.cgroups is None:
            return None
        return self.cgroups.create(f"box-{owner}", Limits(memory_mib=DEFAULT_MEMORY_MIB))

    def _limit(self, box: LocalBox) -> None:
        """Put a box with limits of its own into a group of its own. The kernel takes a millisecond for that."""
        limits = box.spec.limits
        if self.cgroups is None or not (limits.memory_mib or limits.cpus or limits.pids):
            box.cgroup = self.zygote_of(box).cgroup
            return
        try:
            memory_mib = limits.memory_mib or DEFAULT_MEMORY_MIB  # it leaves the group that guards the host's memory
            limits = limits.model_copy(update={"memory_mib": memory_mib})
            box.own_cgroup = box.cgroup = self.cgroups.create(box.id, limits)
        except OSError as error:
            raise CreateFailed(f"no control group for a box: {error}") from error

    async def start_box(self, box: LocalBox) -> None:
        """Bring up a box's first process on the layers that it stands on."""
        memory_bytes = (box.spec.limits.memory_mib or DEFAULT_MEMORY_MIB) << 20
        is_kernels = self.cgroups is not None and self.cgroups.controls("memory")
        mounts, lowest = self._base(box)
        home = self.store.name_of(box.id)
        root = RootSpec(
            state=str(self._state),
            lowers=[*(f"layers/{layer}/diff" for layer in box.chain), *lowest],
            upper=f"{home}/{UPPER}",
            work=f"{home}/{WORK}",
            binds=[{"source": mount.source, "target": mount.target} for mount in mounts],
            network=box.spec.network,
            id_range=self.identity.has_range,
            rlimits=rlimits(box.spec.limits, own_user=self.identity.has_range),
            workdir=box.spec.workdir,
            shared_memory_bytes=memory_bytes // 2 if box.spec.limits.memory_mib else DEFAULT_SHARED_BYTES,
            memory_bytes=None if is_kernels else memory_bytes,
            disk_bytes=in_bytes(box.spec.limits.disk_mib),
        )
        await box.start(root._asdict(), self.identity.id_map)

    def _base(self, box: LocalBox) -> tuple[tuple[Mount, ...], tuple[str, ...]]:
        """What is mounted in a box, and the lowest of its layers, by paths below the state directory.

        The last of them is a skeleton that has places for what is mounted; none where that is nothing.
        """
        skeletons, scratch = self.store.skeletons, self.store.scratch
        has_network = box.spec.network == "host"
        if box.image is None:
            mounts = _merge(host_mounts(), box.spec.mounts)
            return mounts, (f"skeletons/{ensure_skeleton(skeletons, scratch, mounts, has_network, self.identity)}",)
        mounts = _merge(network_mounts() if has_network else (), box.spec.mounts)
        if not mounts:
            return mounts, ()
        return mounts, (f"skeletons/{ensure_mount_points(skeletons, scratch, mounts, self.identity)}",)

    async def ensure_image(
        self, image: str, *, refresh: bool = False, on_progress: Callable[[str], None] | None = None
    ) -> str:
        """Pull a container image if it is not there, or if its registry has a newer one and ``refresh`` is set.

        Returns the digest of its manifest.

        Raises ``InputError``, ``ImageNotFound``, ``PullFailed``, ``CreateFailed`` or ``NoSpace``.
        """
        record = await self._images.ensure(image, refresh=refresh, say=on_progress or (lambda _text: None))
        return record.image.digest if record.image else record.id

    async def delete_image(self, image: str) -> None:
        """Forget a container image; layers that nothing needs are deleted."""
        await to_thread.run_sync(self._images.delete, image)

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """Rename the box's layer where nothing runs in it, the same time for any size; copy it where it is paused."""
        if not isinstance(box, LocalBox) or box.is_closed:
            raise SandboxClosed("only a live box of this provider can be frozen")
        return (await freeze(self, box, snapshot_id or new_id("snap"))).public

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot; layers that nothing needs are deleted."""
        await to_thread.run_sync(self.store.delete_snapshot, snapshot_id)

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots in the state directory."""
        return [record.public for record in self.store.snapshots()]

    async def parts_of(self, snapshot_id: str) -> SnapshotParts:
        """The layers above its image, each of which is copied once."""
        return await to_thread.run_sync(exporting.parts_of, self, snapshot_id)

    async def export_part(self, part: str, file: Path) -> None:
        """A layer as a tar archive."""
        await exporting.export_part(self, part, file)

    async def import_snapshot(self, snapshot_id: str, made_of: SnapshotParts, fetch: PartSource) -> Snapshot:
        """Layers that are not here are unpacked; an image below them is pulled."""
        return (await exporting.import_snapshot(self, snapshot_id, made_of, fetch)).public

    async def toolchain(self, python: str | None, tools: Sequence[str]) -> Toolchain:
        """A Python and programs of this machine; see :mod:`swe_sdk.sandbox.providers.local.toolchain`."""
        return await to_thread.run_sync(find_toolchain, python, tools, self._state / "pythons")

    async def owned(self) -> list[OwnedBox]:
        """All boxes in the state directory, and what dead processes have left besides."""
        groups = self.cgroups if self.name == "local" else None  # they are the whole machine's: one lists them
        return await to_thread.run_sync(owned_boxes, self._state, groups)

    async def remove(self, handle: str) -> None:
        """Sweep up after dead processes, which is what removes any of their boxes."""
        await to_thread.run_sync(self._sweep, handle)
        if is_box_left(self._state, handle) or is_group_left(self.cgroups, handle):
            raise SandboxError(f"{handle} is still in use")

    def _sweep(self, handle: str) -> None:
        if is_box_left(self._state, handle):
            self.store.sweep()
        if self.cgroups is not None:
            self.cgroups.sweep()

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
            for zygote in self._zygotes:
                zygote.close()
            for group in {zygote.cgroup for zygote in self._zygotes if zygote.cgroup is not None}:
                group.remove()
            store.close()

    def _forget(self) -> None:
        _open_providers.discard(self)
        self._opening = threading.Lock()
        store, self._store = self._store, None
        for box in self.boxes.values():
            box.forget()
        self.boxes.clear()
        if store is not None:
            for zygote in self._zygotes:
                zygote.forget()
            store.forget()


def _merge(first: tuple[Mount, ...], second: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Both lists; a target named twice goes to the later."""
    return tuple({mount.target: mount for mount in (*first, *second)}.values())


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
