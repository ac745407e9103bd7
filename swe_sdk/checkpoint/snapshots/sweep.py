"""Looks for snapshots that no checkpoint needs any more, and for those that one needs and are gone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import anyio
from anyio import to_thread

from swe_sdk.checkpoint.snapshots.index import SnapshotIndex, unneeded
from swe_sdk.errors import CapabilityMissing
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import SandboxProvider, SupportsSnapshots

PARALLEL = 16


class Audit(Record):
    """What a state directory and its provider say of each other. Snapshots that are in no index are not looked at:
    they belong to built environments, or to somebody else."""

    needed: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()
    """There, and of no kept checkpoint: of dropped ones, or of a save that a crash has cut."""
    missing: tuple[str, ...] = ()
    """Of a kept checkpoint, and gone."""
    forgotten: tuple[str, ...] = ()
    """In the index, of no kept checkpoint, and gone: nothing but lines."""


def merged(audits: Iterable[Audit]) -> Audit:
    """Those of several state directories as one. Pure."""
    found = list(audits)
    return Audit(**{part: tuple(name for one in found for name in getattr(one, part)) for part in Audit.model_fields})


async def audit(state_dir: Path, provider: SandboxProvider, *, kept: Iterable[str]) -> Audit:
    """Compare; changes nothing. ``kept`` are the ids of the complete checkpoints of the run."""
    found = {snapshot.id for snapshot in await _snapshots(provider).snapshots()}
    index = await to_thread.run_sync(SnapshotIndex, state_dir)
    entries = await to_thread.run_sync(index.entries)
    ours = {name for name, entry in entries.items() if entry.provider == provider.name}
    over = set(unneeded(entries.values(), frozenset(kept), provider.name))
    return Audit(
        needed=tuple(sorted((ours - over) & found)),
        unneeded=tuple(sorted(over & found)),
        missing=tuple(sorted((ours - over) - found)),
        forgotten=tuple(sorted(over - found)),
    )


async def sweep(state_dir: Path, provider: SandboxProvider, *, kept: Iterable[str]) -> Audit:
    """Delete what nobody needs; returns what there was before. Nothing may be saving meanwhile."""
    before = await audit(state_dir, provider, kept=kept)
    index = await to_thread.run_sync(SnapshotIndex, state_dir)
    limiter = anyio.CapacityLimiter(PARALLEL)

    async def delete(snapshot_id: str) -> None:
        async with limiter:
            await _snapshots(provider).delete_snapshot(snapshot_id)

    async with anyio.create_task_group() as tasks:
        for snapshot_id in before.unneeded:
            tasks.start_soon(delete, snapshot_id)
    await to_thread.run_sync(index.forget, [*before.unneeded, *before.forgotten])
    return before


def _snapshots(provider: SandboxProvider) -> SupportsSnapshots:
    if "snapshots" in provider.capabilities and isinstance(provider, SupportsSnapshots):
        return provider
    raise CapabilityMissing(f"provider {provider.name} cannot snapshot")
