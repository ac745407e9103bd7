"""Boxes on container images where there is no daemon and no root: HPC nodes with Apptainer."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

from anyio import to_thread

from swe_sdk.errors import SnapshotNotFound
from swe_sdk.model.ids import new_id
from swe_sdk.paths import state_dir
from swe_sdk.sandbox.boxside.container import IMAGE
from swe_sdk.sandbox.contract import Box, Enforcement, Mount, ProviderHealth, SandboxSpec, Snapshot, Toolchain
from swe_sdk.sandbox.image_toolchain import find_toolchain, no_base_image
from swe_sdk.sandbox.images.settings import RegistrySettings
from swe_sdk.sandbox.providers.apptainer.box import ApptainerBox
from swe_sdk.sandbox.providers.apptainer.building import Builder
from swe_sdk.sandbox.providers.apptainer.container import Facts, ImageZygote
from swe_sdk.sandbox.providers.apptainer.ground import ensure_ground
from swe_sdk.sandbox.providers.apptainer.library import Image, ImageLibrary
from swe_sdk.sandbox.providers.apptainer.mounted import MountedImages
from swe_sdk.sandbox.providers.apptainer.probing import probe
from swe_sdk.sandbox.providers.apptainer.program import Program, find_program
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.sandbox.providers.local import bounds
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.identity import Identity
from swe_sdk.sandbox.providers.local.layers import LayerStore
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.providers.local.records import ImageFacts
from swe_sdk.sandbox.providers.local.skeleton import network_mounts
from swe_sdk.sandbox.runtime import Runtime, ensure_runtime


class ApptainerProvider(LocalProvider):
    """Boxes on images that Apptainer mounts: .sif files, directories, and what it pulls from registries.

    A box is made as the local provider makes one, in namespaces of its own; only the lowest layer is an image, and the
    zygote runs where Apptainer has let it in (:mod:`swe_sdk.sandbox.providers.apptainer.container` says why). Boxes,
    snapshots and pulled images are kept under ``state`` (default: ``apptainer`` in the state directory).
    """

    name = "apptainer"
    capabilities = LocalProvider.capabilities - {"export"}  # its lowest layer is a file that another machine may lack

    def __init__(
        self,
        state: str | Path | None = None,
        *,
        options: ApptainerSettings | None = None,
        registries: RegistrySettings | None = None,
    ) -> None:
        # The container has this machine's file system elsewhere, where a link to an absolute path would lead astray.
        super().__init__(Path(state if state is not None else state_dir() / "apptainer").resolve())
        self.options = options or ApptainerSettings()
        self._registries = registries or RegistrySettings()
        self.identity = Identity(first=None)
        self._program: Program | None = None

    # -- images -----------------------------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """Apptainer itself; ``ProviderUnavailable`` where there is none that serves."""
        if self._program is None:
            self._program = find_program(self.options.program)
        return self._program

    @property
    def runtime(self) -> Runtime:
        """The interpreter that is carried into containers; ``PrerequisiteError`` where it cannot be."""
        return ensure_runtime(self.state)

    async def find_image(self, name: str | None, *, refresh: bool = False) -> Image:
        """An image by name, pulled if it is not here; None = the base image of the settings."""
        name = name or self.options.base_image
        if name is None:
            raise no_base_image(self.name)
        return await self._library(await to_thread.run_sync(lambda: self.program)).find(name, refresh=refresh)

    def _library(self, program: Program) -> ImageLibrary:
        builder = Builder(program, self.store.scratch, self.options, self._registries)
        return ImageLibrary(self.store.root / "sif", builder, self.options.image_dirs, self._registries.mirror)

    async def ensure_image(
        self, image: str, *, refresh: bool = False, on_progress: Callable[[str], None] | None = None
    ) -> str:
        """Have an image on this disk, and mounted.

        ``refresh`` pulls again what came from a registry; snapshots made on the old one are then gone. ``InputError``,
        ``ImageNotFound``, ``PullFailed``, ``CreateFailed`` or ``NoSpace``.
        """
        (on_progress or (lambda _text: None))(f"looking for the image {image}")
        found = await self.find_image(image, refresh=refresh)
        await self.images.mount(found)
        return found.key

    async def delete_image(self, image: str) -> None:
        """Delete what was pulled for a name; files that we have not made stay."""
        self._library(await to_thread.run_sync(lambda: self.program)).forget(image)

    def _make_zygote(self, image: Image) -> ImageZygote:
        return ImageZygote(
            image,
            needs=lambda: (self.program, self.runtime),
            state=self.state,
            cgroup=self._group,
            start_timeout_s=self.options.start_timeout_s,
        )

    def _images_in_use(self) -> set[str]:
        return {box.image.digest for box in list(self.boxes.values()) if box.image is not None}

    # -- what differs from a local box ------------------------------------------------------------------------------

    def _prepare(self, store: LayerStore) -> None:
        for name in (IMAGE, "sif"):
            (store.root / name).mkdir(exist_ok=True)
        self._group = self._common_group(store.owner)
        self.images = MountedImages(
            self._make_zygote, self._images_in_use, self.options.idle_images, self.options.idle_s
        )

    def zygote_of(self, box: LocalBox) -> ImageZygote:
        """That of the image which the box stands on."""
        assert box.image is not None
        return self.images.zygote(Image(Path(box.image.name), box.image.digest))

    @property
    def _zygotes(self) -> Sequence[ImageZygote]:
        return self.images.all

    async def _planned(self, spec: SandboxSpec) -> ApptainerBox:
        chain: tuple[str, ...] = ()
        if spec.snapshot is not None:
            record = self.store.snapshot(spec.snapshot)
            image, chain = _image_below(spec.snapshot, record.image), record.chain
        else:
            image = await self.find_image(spec.image)
        facts = await self.images.mount(image)
        box = ApptainerBox(self, spec, chain, new_id("box"))
        box.stand_on(_facts(image, facts))
        return box

    def _base(self, box: LocalBox) -> tuple[tuple[Mount, ...], tuple[str, ...]]:
        wanted = (*(network_mounts() if box.spec.network == "host" else ()), *box.spec.mounts)
        mounts = tuple({mount.target: mount for mount in wanted}.values())
        ground = ensure_ground(self.store.skeletons, self.store.scratch, mounts)
        return mounts, (IMAGE, f"skeletons/{ground}")

    def _end(self) -> None:
        is_open = self._store is not None
        super()._end()
        if is_open and self._group is not None:
            self._group.remove()

    # -- the rest ---------------------------------------------------------------------------------------------------

    async def _probe(self) -> ProviderHealth:
        return await probe(self)

    def details(self) -> dict[str, str]:
        """What the health report says of this machine."""
        return {
            "state": str(self.state),
            "kernel": platform.release(),
            "users": "root in a box is the caller outside",
            "control groups": f"version {self.cgroups.version}" if self.cgroups else "none that this user may make",
            "image directories": ", ".join(self.options.image_dirs) or "none",
            "base image": self.options.base_image or "none",
        }

    def enforcement(self) -> dict[str, Enforcement]:
        """How limits are kept. The kernel counts no processes of root's, and as root that is who programs are."""
        limits = bounds.enforcement(self.cgroups)
        if os.geteuid() == 0 and (self.cgroups is None or not self.cgroups.controls("pids")):
            limits["pids"] = "unavailable"
        return limits

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        """Rename the box's layer where nothing runs in it, the same time for any size; copy it where it is paused."""
        return _ours(await super().snapshot(box, snapshot_id=snapshot_id))

    async def snapshots(self) -> list[Snapshot]:
        """All snapshots in the state directory."""
        return [_ours(snapshot) for snapshot in await super().snapshots()]

    async def toolchain(self, python: str | None, tools: Sequence[str]) -> Toolchain:
        """A Python and programs of the base image; see :mod:`swe_sdk.sandbox.image_toolchain`."""
        image = await self.find_image(None)
        box = await self.create(SandboxSpec(image=str(image.path), workdir="/", labels={"purpose": "toolchain"}))
        try:
            return await find_toolchain(box, str(image.path), image.key, python, tools)
        finally:
            await box.close()


def _ours(snapshot: Snapshot) -> Snapshot:
    return snapshot.model_copy(update={"provider": ApptainerProvider.name})


def _facts(image: Image, facts: Facts) -> ImageFacts:
    return ImageFacts(str(image.path), image.key, facts.env, "/bin/bash" if facts.has_bash else "/bin/sh")


def _image_below(snapshot_id: str, below: ImageFacts | None) -> Image:
    """The image that a snapshot was made on, unless it has changed since."""
    if below is None:
        raise SnapshotNotFound(f"the snapshot {snapshot_id} is of another provider")
    try:
        image = Image.at(Path(below.name))
    except OSError as error:
        raise SnapshotNotFound(f"the image below the snapshot {snapshot_id} is gone: {error}") from error
    if image.key != below.digest:
        raise SnapshotNotFound(
            f"{below.name} has changed since the snapshot {snapshot_id} was made on it", remedy="make it again"
        )
    return image
