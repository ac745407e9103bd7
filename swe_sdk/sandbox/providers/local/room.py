"""Room on the disk for images."""

from __future__ import annotations

import os
from pathlib import Path

from swe_sdk.errors import NoSpace
from swe_sdk.sandbox.providers.local.layers import LayerStore

RESERVE_BYTES = 256 << 20
"""What is left free on the disk."""
_FACTOR = 4
"""How many times its packed size a layer is taken to need: packed, and three times that unpacked."""


def free_bytes(path: Path) -> int:
    """What this user may still write to a disk."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def make_room(store: LayerStore, packed_bytes: int, image_id: str, name: str) -> None:
    """Forget other images, those first that were not used for the longest time, until there is room for an image.

    ``packed_bytes`` of layers are missing for it. ``NoSpace`` where that is not enough.
    """
    needed = packed_bytes * _FACTOR + RESERVE_BYTES
    for image in store.records.images():
        if free_bytes(store.root) >= needed:
            return
        if image.id != image_id:
            store.delete_snapshot(image.id)
    if free_bytes(store.root) < needed:
        raise NoSpace(
            f"no space for the image {name}: it takes about {needed >> 20:,} MiB in {store.root}",
            remedy="free some disk, or set SWE_SDK_STATE elsewhere",
        )
