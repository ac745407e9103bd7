"""Whether the snapshots of runs are those that their checkpoints need."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.checkpoint.snapshots.sweep import Audit, audit, sweep
from swe_sdk.errors import InputError
from swe_sdk.model.record import Record
from swe_sdk.runs.checkpoints.places import complete_ids, has_snapshots, original_of, snapshots_folder
from swe_sdk.runs.folder import load_plan
from swe_sdk.runs.lock import held_run
from swe_sdk.sandbox.registry import named_provider
from swe_sdk.store.layout import is_run


class RunSnapshots(Record):
    """The snapshots of one run at one provider."""

    run: str
    provider: str = ""
    found: Audit = Audit()
    reaped: bool = False
    """Whether what was unneeded is deleted now."""
    skipped: str = ""
    """Why nobody has looked, or nothing was deleted."""


async def run_snapshots(run_dir: Path, *, reap: bool = False) -> list[RunSnapshots]:
    """Compare the index of a run with each provider that it has snapshots of; with ``reap``, delete what nobody needs.

    A run under way is looked at, and never reaped: what it has just begun to save is needed by no checkpoint yet.
    Raises ``InputError`` where there is no run.
    """
    if not is_run(run_dir):
        raise InputError(f"there is no run at {run_dir}")
    if not has_snapshots(run_dir):
        return []
    plan = await to_thread.run_sync(load_plan, run_dir)
    if plan is not None and "provider" in plan.given:
        return [RunSnapshots(run=run_dir.name, skipped="its provider was handed over as an object: resume the run")]
    if not reap:
        return await _all(run_dir, reap=False)
    original = await to_thread.run_sync(original_of, run_dir)
    if original is not None:
        return [RunSnapshots(run=run_dir.name, skipped=f"they are those of {original}, of which this is a copy")]
    try:
        with held_run(run_dir):
            return await _all(run_dir, reap=True)
    except InputError:
        looked = await _all(run_dir, reap=False)
        return [one.model_copy(update={"skipped": "it is under way"}) for one in looked]


async def _all(run_dir: Path, *, reap: bool) -> list[RunSnapshots]:
    return [await _one(run_dir, name, reap=reap) for name in await to_thread.run_sync(_providers, run_dir)]


def _providers(run_dir: Path) -> list[str]:
    return sorted({entry.provider for entry in SnapshotIndex(snapshots_folder(run_dir)).entries().values()})


async def _one(run_dir: Path, name: str, *, reap: bool) -> RunSnapshots:
    look = sweep if reap else audit
    kept = await to_thread.run_sync(complete_ids, run_dir)
    provider = named_provider(name)
    try:
        found = await look(snapshots_folder(run_dir), provider, kept=kept)
    finally:
        await provider.aclose()
    return RunSnapshots(run=run_dir.name, provider=name, found=found, reaped=reap)
