"""Boxes of a Docker engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from swe_sdk.errors import CreateFailed, SandboxClosed, SandboxError, SnapshotNotFound
from swe_sdk.model.ids import new_id
from swe_sdk.paths import state_dir
from swe_sdk.sandbox.admission import Admission, AdmissionLimits
from swe_sdk.sandbox.contract import Box, Capability, ProviderHealth, SandboxSpec, Snapshot, Toolchain
from swe_sdk.sandbox.exec_client import RunAs
from swe_sdk.sandbox.image_toolchain import no_base_image, toolchain_of
from swe_sdk.sandbox.leases import Lease, LeaseBook
from swe_sdk.sandbox.providers.docker import probing, snapshots
from swe_sdk.sandbox.providers.docker.arrival import forget_stale
from swe_sdk.sandbox.providers.docker.birth import bring_up
from swe_sdk.sandbox.providers.docker.box import DockerBox
from swe_sdk.sandbox.providers.docker.container import Image
from swe_sdk.sandbox.providers.docker.endings import open_providers
from swe_sdk.sandbox.providers.docker.engine import Engine
from swe_sdk.sandbox.providers.docker.failures import EngineTrouble, unusable
from swe_sdk.sandbox.providers.docker.images import Images
from swe_sdk.sandbox.providers.docker.reaping import owned, remove
from swe_sdk.sandbox.providers.docker.warm import WarmPool
from swe_sdk.sandbox.reaper import OwnedBox, PeriodicReaper, reap
from swe_sdk.sandbox.runtime import Runtime, RuntimeKeeper

_CAPABILITIES: frozenset[Capability] = frozenset({"snapshots", "pause", "streaming", "listen", "processes", "build"})


def _default_limits() -> AdmissionLimits:
    # the engine makes no more boxes a second with more than this at once, and each of them takes longer
    return AdmissionLimits(creates=2 * (os.cpu_count() or 2))


class DockerProvider:
    """Boxes as containers of the engine at ``base_url`` (default: ``$DOCKER_HOST``, else the usual socket).

    ``base_image`` (default: ``$SWE_SDK_BASE_IMAGE``) is what sources are built on, and what boxes stand on that name
    neither an image nor a snapshot. ``state`` holds records of built environments, and what boxes get from this
    machine. ``warm`` boxes of each kind that was asked for lately are kept ready. One object may serve several event
    loops and threads.
    """

    name = "docker"
    capabilities = _CAPABILITIES

    def __init__(
        self,
        *,
        base_url: str | None = None,
        base_image: str | None = None,
        state: str | Path | None = None,
        leases: LeaseBook | None = None,
        admission: Admission | None = None,
        warm: int = 0,
    ) -> None:
        self._root = Path(state).absolute() if state is not None else state_dir()
        self.engine = Engine(base_url)
        self.base_image = base_image or os.environ.get("SWE_SDK_BASE_IMAGE") or None
        self.leases = leases or LeaseBook(self._root / "leases")
        self.admission = admission or Admission(_default_limits())
        self.images = Images(self.engine, self.state)
        self.boxes: dict[str, DockerBox] = {}
        self.customs: dict[str, tuple[str, RunAs]] = {}
        """By the id of an image: its shell, and whom it names as its user."""
        self._toolchains: dict[tuple[str, str | None, tuple[str, ...]], Toolchain] = {}
        self._looking = anyio.Lock()
        self._health: ProviderHealth | None = None
        self.is_rootless = False
        """Whether the engine is an ordinary user's own."""
        self._is_open = False
        self._runtime = RuntimeKeeper(self._root)
        self.warm = WarmPool(self, warm)
        self._reaper = PeriodicReaper(self.leases, self)

    @property
    def state(self) -> Path:
        """Where records of built environments are kept."""
        return self._root / "docker"

    @property
    def settings(self) -> Mapping[str, Any]:
        """What another process needs to reach the same engine."""
        return {"base_url": self.engine.base_url}

    async def probe(self) -> ProviderHealth:
        """Make a box of nothing, run a program in it, and close it. A success is remembered."""
        if self._health is None or not self._health.works:
            self._health = await probing.probe(self)
        return self._health

    async def ping(self) -> None:
        """See :meth:`swe_sdk.sandbox.contract.SupportsPing.ping`."""
        if self._is_open:
            await self.engine.call("say that it is there", lambda api: api.ping(), abandon=True)

    # -- boxes ------------------------------------------------------------------------------------------------------

    async def create(self, spec: SandboxSpec) -> Box:
        """A new box on an image, on a snapshot of this provider, or on the base image."""
        try:
            await self._open()
            image = await self._image(spec)
        except EngineTrouble as trouble:
            raise CreateFailed(trouble.message, remedy=trouble.remedy) from trouble
        except OSError as error:
            raise unusable(self._root, error) from error
        self.images.require_space()
        slot = await self.admission.box(spec.labels.get("task", ""))
        try:
            box = await self.warm.take(spec, image) or await self.make(spec, image)
        except BaseException:
            slot.release()
            raise
        try:
            await box.hand_out(spec, slot)
        except BaseException:
            await box.close()
            raise
        return box

    async def make(self, spec: SandboxSpec, image: Image) -> DockerBox:
        """A new box, which has nobody's place yet; see :meth:`DockerBox.hand_out`."""
        box = DockerBox(self, spec, image, self.intend(spec))
        self.boxes[box.id] = box
        try:
            async with self.admission.create(box.id):
                await bring_up(self, box)
        except BaseException:
            await box.close()
            raise
        return box

    async def ensure_image(
        self, image: str, *, refresh: bool = False, on_progress: Callable[[str], None] | None = None
    ) -> str:
        """Have an image ready; see :meth:`swe_sdk.sandbox.contract.SupportsImages.ensure_image`."""
        await self._open()
        if on_progress is not None and (refresh or await self.images.find(image) is None):
            on_progress(f"pulling {image}")
        return (await self.images.ensure(image, refresh=refresh)).id

    def intend(self, spec: SandboxSpec) -> Lease:
        """A lease for something that this process is about to make."""
        labels = spec.labels
        return self.leases.intend(
            self.name, settings=self.settings, run=labels.get("run", ""), task=labels.get("task", "")
        )

    async def _image(self, spec: SandboxSpec) -> Image:
        if spec.snapshot is not None:
            name = snapshots.image_name(spec.snapshot)
            found = None if name is None else await self.images.find(name)
            if found is None:
                raise SnapshotNotFound(f"there is no snapshot {spec.snapshot!r}")
            return found
        name = spec.image or self.base_image
        if name is None:
            raise no_base_image(self.name)
        return await self.images.ensure(name)

    async def _open(self) -> None:
        """Once: see whether we can use this engine, and remove what dead processes have left in it."""
        if not self._is_open:
            info = await probing.ask(self.engine)
            self.images.data_is_at(str(info.get("DockerRootDir") or ""))
            self.is_rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or ())
            await to_thread.run_sync(self._prepare)
            self._is_open = True
            open_providers.add(self)
            await reap(self.leases, [self], only=self.name)
            self._reaper.start()

    def _prepare(self) -> None:
        forget_stale(self.state / "boxes")
        self.runtime()

    def runtime(self) -> Runtime:
        """What our supervisor runs on in a box. Blocks the first time."""
        return self._runtime.get()

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """Commit what the box has written, where nothing runs in it or it is paused."""
        if not isinstance(box, DockerBox) or box.is_closed:
            raise SandboxClosed("only a live box of this provider can be frozen")
        return await snapshots.freeze(self, box, snapshot_id or new_id("snap"))

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot; its image goes when no box and no snapshot needs it."""
        name = snapshots.image_name(snapshot_id)
        found = None if name is None else await self.images.find(name)
        if found is not None:
            await self.warm.drop(found.id)
        await snapshots.delete(self.engine, snapshot_id)

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots of the engine."""
        return await snapshots.snapshots(self.engine, self.name)

    # -- builds -----------------------------------------------------------------------------------------------------

    async def toolchain(self, python: str | None, tools: Sequence[str]) -> Toolchain:
        """A Python and programs of the base image; see :mod:`swe_sdk.sandbox.image_toolchain`."""
        if self.base_image is None:
            raise no_base_image(self.name)
        await self._open()
        image = await self.images.ensure(self.base_image)
        key = (image.id, python, tuple(tools))
        async with self._looking:  # the first of many grades looks, and the others know
            if key not in self._toolchains:
                self._toolchains[key] = await toolchain_of(self, image.id, self.base_image, image.id, python, tools)
            return self._toolchains[key]

    # -- the end ----------------------------------------------------------------------------------------------------

    async def owned(self) -> list[OwnedBox]:
        """See :meth:`swe_sdk.sandbox.reaper.SupportsReaping.owned`."""
        return await owned(self.engine)

    async def remove(self, handle: str) -> None:
        """See :meth:`swe_sdk.sandbox.reaper.SupportsReaping.remove`."""
        await remove(self.engine, handle)

    async def aclose(self) -> None:
        """Close all boxes, and the connections to the engine. The provider may be used again."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._reaper.stop)
            await to_thread.run_sync(self.warm.stop)
            async with anyio.create_task_group() as tasks:
                for box in list(self.boxes.values()):
                    tasks.start_soon(box.close)
            if self._is_open:
                await self.collect()
        self.engine.close()
        self._is_open = False
        open_providers.discard(self)

    def forget(self) -> None:
        """In a forked child: everything is the parent's."""
        open_providers.discard(self)
        self._reaper.forget()
        self.warm.forget()
        self._runtime.forget()
        self._is_open = False
        self.engine.forget()
        for box in self.boxes.values():
            box.forget()
        self.boxes.clear()

    async def collect(self) -> None:
        """Remove the images of deleted snapshots that nothing needs any more."""
        try:
            await snapshots.collect(self.engine)
        except SandboxError:
            pass  # the engine does not answer: the next one collects
