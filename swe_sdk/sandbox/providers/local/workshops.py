"""Directories in which layers are made."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.model.ids import new_id

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.local.provider import LocalProvider


@asynccontextmanager
async def workshop(
    provider: LocalProvider, chain: tuple[str, ...] = (), named_by: str | None = None
) -> AsyncIterator[Path]:
    """A directory like that of a box, without a box: it keeps ``chain``, and goes with this process.

    ``named_by``: see ``LayerStore.discard``.
    """
    path = await to_thread.run_sync(provider.store.new_box, new_id("workshop"), chain)
    try:
        yield path
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(provider.store.discard, path, chain, named_by)
