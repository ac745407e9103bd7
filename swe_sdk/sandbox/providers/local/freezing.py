"""Snapshots of a box: its writable layer is renamed where nothing runs in the box, and copied where it is paused."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from swe_sdk.errors import NoSpace, SandboxClosed, SandboxError, SnapshotBusy
from swe_sdk.sandbox.providers.local.layers import UPPER
from swe_sdk.sandbox.providers.local.records import SnapshotRecord
from swe_sdk.sandbox.providers.local.workshops import workshop

if TYPE_CHECKING:
    from swe_sdk.sandbox.providers.local.box import LocalBox
    from swe_sdk.sandbox.providers.local.provider import LocalProvider

MAX_DEPTH = 64
"""Before a snapshot would make a chain deeper than this, the upper half of the chain is merged into one layer.

The kernel stops at 500 layers, and each of them costs 6 us a mount and 0.5 us a name that is not found. Half a chain,
because an environment at the bottom is shared with others and large, and what was written since is neither.
"""


async def freeze(provider: LocalProvider, box: LocalBox, snapshot_id: str) -> SnapshotRecord:
    """A snapshot of ``box``, by that id; see :meth:`swe_sdk.sandbox.contract.SupportsSnapshots.snapshot`."""
    try:
        async with box.freezing:
            if len(box.chain) >= min(MAX_DEPTH, provider.zygote_of(box).max_layers):
                await _shorten(provider, box)
            if box.is_paused and await _only_stopped(box):
                return await _copy(provider, box, snapshot_id)
            if box.has_listened:
                return await _copy_idle(provider, box, snapshot_id)
            return await _seal(provider, box, snapshot_id)
    except (OSError, SandboxError) as error:
        if box.is_closed:
            raise SandboxClosed(f"box {box.id} was closed meanwhile") from error
        if isinstance(error, OSError):
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise (NoSpace if full else SandboxError)(f"box {box.id} could not be frozen: {error}") from error
        raise


async def _only_stopped(box: LocalBox) -> bool:
    """Whether there are processes, and all of them are stopped, or wait for one that is (D, see ``all_stopped``)."""
    alive = await box.processes()
    return bool(alive) and all(process.state in "TtDZ" for process in alive)


async def _seal(provider: LocalProvider, box: LocalBox, snapshot_id: str) -> SnapshotRecord:
    """Rename the writable layer, between the end of the box's first process and the start of a new one."""
    store = provider.store

    def seal_and_publish() -> SnapshotRecord:
        box.chain, box.named_by = store.seal(box.path, box.chain), snapshot_id
        return store.publish(snapshot_id, box.chain, box.image)

    with anyio.CancelScope(shield=True):
        async with box.changing:
            await _require_idle(box)
            await box.stop()
            try:
                record = await to_thread.run_sync(seal_and_publish)
            finally:
                await to_thread.run_sync(store.renew, box.path, box.chain)
                await provider.start_box(box)
    return record


async def _require_idle(box: LocalBox) -> None:
    alive = await box.alive()
    if alive:
        names = ", ".join(f"{process.pid} {process.command:.60}" for process in alive[:5])
        raise SnapshotBusy(f"processes are alive in the box: {names}", remedy="pause it or stop them")
    if box.is_used:
        raise SnapshotBusy("a call to the box is under way", remedy="wait for it")


async def _copy_idle(provider: LocalProvider, box: LocalBox, snapshot_id: str) -> SnapshotRecord:
    """The same where nothing runs, for a box in which others serve: a new first process would have a new network."""
    async with box.changing:
        await _require_idle(box)
        return await _copy(provider, box, snapshot_id)


async def _copy(provider: LocalProvider, box: LocalBox, snapshot_id: str) -> SnapshotRecord:
    """Copy the writable layer; the box does not notice."""
    async with workshop(provider, box.chain, snapshot_id) as path:
        await _merge(provider, box, [box.path / UPPER], path)
        return await to_thread.run_sync(_publish_copy, provider, box, path, snapshot_id)


def _publish_copy(provider: LocalProvider, box: LocalBox, path: Path, snapshot_id: str) -> SnapshotRecord:
    if box.is_closed:  # and half of the copied layer deleted, perhaps
        raise SandboxClosed(f"box {box.id} was closed meanwhile")
    return provider.store.publish(snapshot_id, provider.store.seal(path, box.chain), box.image)


async def _shorten(provider: LocalProvider, box: LocalBox) -> None:
    """Replace the upper half of the box's chain by one layer.

    The layers themselves stay as they are, so that nobody who reads them notices; they go when nobody needs them.
    """
    store, mounted = provider.store, box.chain
    half = len(mounted) // 2
    async with workshop(provider, mounted) as path:
        await _merge(provider, box, [store.root / "layers" / layer / "diff" for layer in mounted[:half]], path)
        shorter = await to_thread.run_sync(store.seal, path, mounted[half:])
        await to_thread.run_sync(store.need, box.path, (*shorter, *mounted))
        box.chain, box.named_by = shorter, None


async def _merge(provider: LocalProvider, box: LocalBox, layers: list[Path], workshop: Path) -> None:
    sources = [str(layer.relative_to(provider.state)) for layer in layers]
    target = str((workshop / UPPER).relative_to(provider.state))
    await provider.zygote_of(box).merge(provider.state, sources, target, provider.identity.id_map)
