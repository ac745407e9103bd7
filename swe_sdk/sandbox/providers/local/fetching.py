"""Layers of an image, from a registry into the layer store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import anyio
from anyio import to_thread

from swe_sdk.errors import CreateFailed, NoSpace, SweError
from swe_sdk.sandbox.locks import file_lock
from swe_sdk.sandbox.providers.local import room
from swe_sdk.sandbox.providers.local.layers import UPPER
from swe_sdk.sandbox.providers.local.workshops import workshop
from swe_sdk.sandbox.providers.local.zygote import UnpackLimits

if TYPE_CHECKING:
    from swe_sdk.sandbox.images.manifest import Layer
    from swe_sdk.sandbox.images.registry import Registry
    from swe_sdk.sandbox.images.settings import RegistrySettings
    from swe_sdk.sandbox.providers.local.images import Say
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

_AT_ONCE = 3
"""Layers that are fetched or unpacked at the same time."""


async def fetch_layers(
    provider: LocalProvider, registry: Registry, layers: dict[str, Layer], settings: RegistrySettings, say: Say
) -> None:
    """Fetch and unpack the layers that are not there, by name; somebody must need the names already.

    Each is made by one task of one process, whoever else wants it meanwhile. Raises ``PullFailed``, ``CreateFailed``,
    ``NoSpace``, another ``SandboxError``, or ``OSError``.
    """
    store, limiter = provider.store, anyio.CapacityLimiter(_AT_ONCE)
    failed: list[SweError | OSError] = []

    async def fetch(name: str, layer: Layer) -> None:
        try:
            async with limiter, file_lock(store.root / "locks" / name):
                if not store.has_layer(name):
                    say(f"pulling a layer of {layer.size / 1e6:,.1f} MB")
                    await _fetch(provider, registry, name, layer, settings)
        except (SweError, OSError) as error:
            failed.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for name, layer in reversed(layers.items()):
            tasks.start_soon(fetch, name, layer)
    if failed:
        raise failed[0]


async def _fetch(
    provider: LocalProvider, registry: Registry, name: str, layer: Layer, settings: RegistrySettings
) -> None:
    async with workshop(provider) as path:
        with (path / "blob").open("w+b") as blob:
            await to_thread.run_sync(_download, registry, layer, blob, abandon_on_cancel=True)
            await _unpack(provider, blob, path, layer, settings)
        await to_thread.run_sync(provider.store.place, path, name)


def _download(registry: Registry, layer: Layer, blob: BinaryIO) -> None:
    registry.download(layer.digest, layer.size, blob)
    blob.flush()


async def _unpack(
    provider: LocalProvider, blob: BinaryIO, path: Path, layer: Layer, settings: RegistrySettings
) -> None:
    free = room.free_bytes(path) - room.RESERVE_BYTES
    limits = UnpackLimits(layer.diff_id, max(0, min(settings.layer_bytes, free)), settings.layer_entries)
    blob.seek(0)
    try:
        await provider.zygote.unpack(blob.fileno(), path / UPPER, limits, provider.identity.id_map)
    except CreateFailed as error:
        if free < settings.layer_bytes and room.free_bytes(path) < 2 * room.RESERVE_BYTES:
            raise NoSpace(f"no space left for an image: {error}", remedy="free some disk") from error
        raise
