"""A provider on a remote system."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from swe_sdk.errors import (
    CreateFailed,
    InputError,
    SandboxClosed,
    SandboxError,
    SandboxLost,
    SweError,
)
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.ids import new_id
from swe_sdk.paths import state_dir
from swe_sdk.sandbox.admission import Admission, AdmissionLimits
from swe_sdk.sandbox.contract import Box, Capability, Limits, ProviderHealth, SandboxSpec, Snapshot, Toolchain
from swe_sdk.sandbox.image_toolchain import no_base_image, toolchain_of
from swe_sdk.sandbox.leases import LABEL_LEASE, Lease, LeaseBook
from swe_sdk.sandbox.providers.remote.arrival import bring_mounts, calls_to, start_station
from swe_sdk.sandbox.providers.remote.box import RemoteBox
from swe_sdk.sandbox.providers.remote.endings import open_providers
from swe_sdk.sandbox.providers.remote.engine import Engine, Wanted
from swe_sdk.sandbox.providers.remote.failures import RemoteTrouble
from swe_sdk.sandbox.providers.remote.heartbeat import Heartbeat
from swe_sdk.sandbox.providers.remote.labels import BOX, BOX_KIND, KIND, metadata_of, owned_box
from swe_sdk.sandbox.providers.remote.shelf import HANDLE, Shelf
from swe_sdk.sandbox.reaper import OwnedBox, PeriodicReaper, reap
from swe_sdk.sandbox.runtime import Runtime, RuntimeKeeper
from swe_sdk.sandbox.trial import require_works

DEFAULT_TTL_S = 3600.0
_CREATES_AT_ONCE = 8


class RemoteProvider:
    """Boxes of the system behind ``engine``.

    ``base_image`` (default: ``$SWE_SDK_BASE_IMAGE``) is what sources are built on, and what boxes stand on that name
    neither an image nor a snapshot. ``state`` holds records of built environments. A box that nobody renews ends after
    ``ttl_s`` seconds by the system's own clock; this process renews its boxes while it lives. One object may serve
    several event loops and threads.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        base_image: str | None = None,
        state: str | Path | None = None,
        leases: LeaseBook | None = None,
        admission: Admission | None = None,
        ttl_s: float = DEFAULT_TTL_S,
    ) -> None:
        if ttl_s < engine.traits.min_ttl_s:
            raise InputError(f"boxes of {engine.name} live at least {engine.traits.min_ttl_s:g} s, not {ttl_s:g}")
        self.engine = engine
        self.name = engine.name
        self.base_image = base_image or os.environ.get("SWE_SDK_BASE_IMAGE") or None
        self.ttl_s = ttl_s
        self._root = Path(state).absolute() if state is not None else state_dir()
        self.leases = leases or LeaseBook(self._root / "leases")
        self.admission = admission or Admission(AdmissionLimits(creates=engine.traits.max_fork or _CREATES_AT_ONCE))
        self.boxes: dict[str, RemoteBox] = {}
        self._shelf = Shelf(self)
        self._toolchains: dict[tuple[str, str | None, tuple[str, ...]], Toolchain] = {}
        self._looking = anyio.Lock()
        self._health: ProviderHealth | None = None
        self._is_open = False
        self._runtime = RuntimeKeeper(self._root)
        self._reaper = PeriodicReaper(self.leases, self)
        self.heartbeat = Heartbeat(self)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do beyond the basic contract."""
        always: frozenset[Capability] = frozenset(
            {"snapshots", "remote_snapshots", "pause", "streaming", "processes", "build"}
        )
        return always if self.engine.traits.offline else always | {"open_network"}

    @property
    def state(self) -> Path:
        """Where records of built environments are kept."""
        return self._root / self.name

    @property
    def settings(self) -> Mapping[str, Any]:
        """What another process needs to reach the same system."""
        return self.engine.settings

    async def probe(self) -> ProviderHealth:
        """Ask the system, then run a program in a box of the base image, if there is one. A success is remembered."""
        if self._health is None or not self._health.works:
            self._health = await self._probe()
        return self._health

    async def ping(self) -> None:
        """See :meth:`swe_sdk.sandbox.contract.SupportsPing.ping`."""
        if self._is_open:
            await self.engine.introduce()

    async def _probe(self) -> ProviderHealth:
        details: dict[str, str] = {}
        try:
            details |= await self.engine.introduce()
            details["tried"] = self.base_image or "nothing, as no base image is named"
            if self.base_image is not None:
                await require_works(self._run_in_new_box)
        except SweError as error:
            return ProviderHealth(
                provider=self.name, works=False, reason=error.message, remedy=error.remedy, details=details
            )
        kept = self.engine.traits.limits
        limits = {name: "enforced" if name in kept else "unavailable" for name in Limits.model_fields}
        return ProviderHealth.model_validate(
            {"provider": self.name, "works": True, "details": details, "limits": limits}
        )

    async def _run_in_new_box(self) -> ExecResult:
        box = await self.create(SandboxSpec(workdir="/"))
        try:
            return await box.exec("echo works", cwd="/", timeout_s=30)
        finally:
            await box.close()

    # -- boxes ------------------------------------------------------------------------------------------------------

    async def create(self, spec: SandboxSpec) -> Box:
        """A new box on an image, on a snapshot of this provider, or on the base image."""
        await self._open()
        snapshot = None if spec.snapshot is None else (await self._shelf.find(spec.snapshot)).id
        image = None if snapshot else spec.image or self.base_image
        if snapshot is None and image is None:
            raise no_base_image(self.name)
        slot = await self.admission.box(spec.labels.get("task", ""))
        try:
            lease = self._intend(spec.labels)
        except BaseException:
            slot.release()
            raise
        box = RemoteBox(self, spec, lease.id, lease)
        box.slot = slot
        self.boxes[box.id] = box
        try:
            async with self.admission.create(box.id):
                await self._bring_up(box, image, snapshot)
        except BaseException:
            await box.close()
            raise
        return box

    async def _bring_up(self, box: RemoteBox, image: str | None, snapshot: str | None) -> None:
        wanted = Wanted(
            image=image,
            snapshot=snapshot,
            metadata=metadata_of(box.lease, box.id),
            ttl_s=self.ttl_s,
            network=box.spec.network,
            limits=box.spec.limits,
        )
        runtime = await to_thread.run_sync(self.runtime)
        try:
            sandbox = await self.engine.create(wanted)
            # what is graded would not be alone in it
            if any(other.stands_on(sandbox) for other in self.boxes.values()):
                raise CreateFailed(f"{self.name} has given out the sandbox {sandbox} twice")
            calls = calls_to(self.engine, sandbox, box.id, runtime)
            box.serve_by(calls)
            box.lease = self.leases.confirm(box.lease, calls.sandbox)
            await start_station(calls, runtime, box.spec.workdir)
            await bring_mounts(box)
        except RemoteTrouble as trouble:
            raise CreateFailed(trouble.message, remedy=trouble.remedy) from trouble

    async def adopt(self, handle: str, spec: SandboxSpec) -> RemoteBox:
        """Take over a sandbox that another process of ours has made, by the system's id of it, paused or running.

        ``spec`` is what it was made from. Its former owner must be dead, or have let go of it: adopt before anything is
        made or reaped, as that removes what dead processes have left. ``SandboxLost`` where there is none (any more),
        ``InputError`` where it is nobody's of ours.
        """
        found = await self.engine.find(handle)
        if found is None or found.state == "gone":
            raise SandboxLost(f"sandbox {handle} is gone")
        if found.metadata.get(KIND) != BOX_KIND:
            raise InputError(f"sandbox {handle} was not made by us")
        box = RemoteBox(self, spec, found.metadata[BOX], self.leases.confirm(self._intend(spec.labels), handle))
        calls = calls_to(self.engine, handle, box.id, await to_thread.run_sync(self.runtime))
        calls.are_held = found.state == "paused"
        box.serve_by(calls)
        try:
            await self.engine.relabel(handle, metadata_of(box.lease, box.id))
        except BaseException:
            self.leases.keep(box.lease)
            raise
        for lease in self.leases.leases():
            if lease.id == found.metadata.get(LABEL_LEASE):
                self.leases.keep(lease)
        self.boxes[box.id] = box
        open_providers.add(self)
        self.heartbeat.start()
        return box

    def _intend(self, labels: Mapping[str, str]) -> Lease:
        """A lease for something that this process is about to make."""
        run, task = labels.get("run", ""), labels.get("task", "")
        return self.leases.intend(self.name, settings=self.settings, remote=True, run=run, task=task)

    async def _open(self) -> None:
        """Once: see whether we can use this system, and remove what dead processes have left in it."""
        if not self._is_open:
            await self.engine.introduce()
            self._is_open = True
            open_providers.add(self)
            await reap(self.leases, [self], only=self.name)
            self._reaper.start()
            self.heartbeat.start()

    def runtime(self) -> Runtime:
        """What our supervisor runs on in a box. Blocks the first time."""
        return self._runtime.get()

    # -- snapshots --------------------------------------------------------------------------------------------------

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """Freeze what the box has written, where nothing runs in it or it is paused."""
        if not isinstance(box, RemoteBox) or box.is_closed:
            raise SandboxClosed("only a live box of this provider can be frozen")
        return await self._shelf.freeze(box, snapshot_id or new_id("snap"))

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Forget a snapshot; the system's goes when no box stands on it any more."""
        await self._shelf.delete(snapshot_id)

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots of ours that the system has."""
        return await self._shelf.snapshots()

    async def collect(self) -> None:
        """Remove deleted snapshots that nothing needs any more."""
        try:
            await self._shelf.collect()
        except SandboxError:
            pass  # the system does not answer: the next one collects

    # -- builds -----------------------------------------------------------------------------------------------------

    async def toolchain(self, python: str | None, tools: Sequence[str]) -> Toolchain:
        """A Python and programs of the base image; see :mod:`swe_sdk.sandbox.image_toolchain`."""
        if self.base_image is None:
            raise no_base_image(self.name)
        key = (self.base_image, python, tuple(tools))
        async with self._looking:  # the first of many grades looks, and the others know
            if key not in self._toolchains:
                image = self.base_image
                self._toolchains[key] = await toolchain_of(self, image, image, image, python, tools)
            return self._toolchains[key]

    # -- the end ----------------------------------------------------------------------------------------------------

    async def owned(self) -> list[OwnedBox]:
        """See :meth:`swe_sdk.sandbox.reaper.SupportsReaping.owned`."""
        return [box for found in await self.engine.sandboxes({KIND: BOX_KIND}) if (box := owned_box(found))]

    async def remove(self, handle: str) -> None:
        """See :meth:`swe_sdk.sandbox.reaper.SupportsReaping.remove`."""
        if handle.startswith(HANDLE):
            await self._shelf.delete(handle.removeprefix(HANDLE))
        else:
            await self.engine.kill(handle)

    async def aclose(self) -> None:
        """Close all boxes, and the connections to the system. The provider may be used again."""
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self._reaper.stop)
            await to_thread.run_sync(self.heartbeat.stop)
            async with anyio.create_task_group() as tasks:
                for box in list(self.boxes.values()):
                    tasks.start_soon(box.close)
            if self._is_open:
                await self.collect()
            await self.engine.aclose()
        self._is_open = False
        open_providers.discard(self)

    def forget(self) -> None:
        """In a forked child: everything is the parent's."""
        open_providers.discard(self)
        self._reaper.forget()
        self.heartbeat.forget()
        self._runtime.forget()
        self._is_open = False
        self.engine.forget()
        for box in list(self.boxes.values()):
            box.let_go()
