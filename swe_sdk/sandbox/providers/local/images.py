"""Container images as chains of layers: pulled without an engine, each layer unpacked once for all images.

A layer is named by the digest of its content, so that an image which shares it finds it there. On top of an image's own
layers lies one of ours, see ``furnishing``. Images are kept until the disk is too full for another one; then those go
that were not used for the longest time. What a live box or a snapshot stands on stays in any case.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from anyio import to_thread

from swe_sdk.errors import CapabilityMissing, NoSpace, SandboxError
from swe_sdk.model.ids import content_key
from swe_sdk.sandbox.images.reference import ImageReference, parse_reference
from swe_sdk.sandbox.images.settings import RegistrySettings
from swe_sdk.sandbox.locks import file_lock
from swe_sdk.sandbox.providers.local.fetching import fetch_layers
from swe_sdk.sandbox.providers.local.furnishing import furnish
from swe_sdk.sandbox.providers.local.records import IMAGE, ImageFacts, SnapshotRecord
from swe_sdk.sandbox.providers.local.room import make_room
from swe_sdk.sandbox.providers.local.workshops import workshop

if TYPE_CHECKING:
    from swe_sdk.sandbox.images.manifest import Image, Layer
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

_VERSION = 1
"""Changes whenever the same image would be unpacked or furnished differently: old ones are then left unused."""

Say = Callable[[str], None]


class LocalImages:
    """The images of one provider."""

    def __init__(self, provider: LocalProvider) -> None:
        self._provider = provider

    async def ensure(self, name: str, *, refresh: bool = False, say: Say = lambda _text: None) -> SnapshotRecord:
        """The image of that name, pulled where it is not there, or where ``refresh`` is set and it has changed.

        Raises ``InputError``, ``ImageNotFound``, ``PullFailed``, ``CreateFailed``, ``NoSpace``, or another
        ``SandboxError``.
        """
        settings = RegistrySettings()
        reference = _parse(name).through(settings.mirror)
        store = self._provider.store
        image_id = f"{IMAGE}{content_key([_VERSION, str(reference), self._provider.identity.first])[:32]}"
        found = store.use_image(image_id)
        if found is not None and not refresh:
            return found
        async with file_lock(store.root / "locks" / image_id):
            found = store.use_image(image_id)
            if found is not None and not refresh:
                return found
            await self._provider.zygote.require_unpacking()
            try:
                return await _Pull(self._provider, reference, settings, say).run(image_id, found)
            except OSError as error:
                full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                problem = f"the image {reference} could not be kept: {error}"
                raise (NoSpace if full else SandboxError)(problem, remedy="free some disk" if full else "") from error

    def delete(self, name: str) -> None:
        """Forget an image; its layers go when nothing else needs them."""
        reference = _parse(name).through(RegistrySettings().mirror)
        for record in self._provider.store.records.images():
            if record.image is not None and record.image.name == str(reference):
                self._provider.store.delete_snapshot(record.id)


class _Pull:
    """One image on its way here."""

    def __init__(
        self, provider: LocalProvider, reference: ImageReference, settings: RegistrySettings, say: Say
    ) -> None:
        self._provider = provider
        self._reference = reference
        self._settings = settings
        self._say = say

    async def run(self, image_id: str, found: SnapshotRecord | None) -> SnapshotRecord:
        """The new record; ``found`` itself where it still is what the registry has."""
        from swe_sdk.sandbox.images.manifest import resolve
        from swe_sdk.sandbox.images.registry import Registry

        self._say(f"looking up {self._reference}")
        with _until_done() as stop:
            registry = Registry(self._reference, self._settings, stop)
            image = await to_thread.run_sync(resolve, registry, self._reference, abandon_on_cancel=True)
            if found is not None and found.image is not None and found.image.digest == image.digest:
                return found
            layers, store = self._named(image), self._provider.store
            async with workshop(self._provider) as needed:
                await to_thread.run_sync(store.need, needed, layers)
                missing = sum(layer.size for name, layer in layers.items() if not store.has_layer(name))
                await to_thread.run_sync(make_room, store, missing, image_id, str(self._reference))
                await fetch_layers(self._provider, registry, layers, self._settings, self._say)
                facts = ImageFacts(str(self._reference), image.digest, image.env, shell="")
                return await furnish(self._provider, tuple(layers), image_id, facts)

    def _named(self, image: Image) -> dict[str, Layer]:
        """The image's layers by the names that they have here, from the top down.

        Of one that comes twice, the upper one: what the lower one says of any name, it says as well.
        """
        first = self._provider.identity.first
        return {
            f"{IMAGE}{content_key([_VERSION, layer.diff_id, first])[:32]}": layer for layer in reversed(image.layers)
        }


def describe() -> str:
    """What kinds of images can be used here, for a health report."""
    has_zstd = sys.version_info >= (3, 14) or shutil.which("zstd", path=os.defpath) is not None
    return f"pulled without an engine; layers by gzip{' and zstd' if has_zstd else ' (install zstd for those by zstd)'}"


def _parse(name: str) -> ImageReference:
    if name.endswith(".sif"):
        raise CapabilityMissing(f"the local provider cannot run {name!r}", remedy="use provider 'apptainer'")
    return parse_reference(name)


@contextmanager
def _until_done() -> Iterator[threading.Event]:
    """What tells threads that nobody waits for them any more."""
    stop = threading.Event()
    try:
        yield stop
    finally:
        stop.set()
