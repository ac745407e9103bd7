"""Whether the snapshots of runs are those that their checkpoints need."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.checkpoint.snapshots.sweep import Audit, audit, merged
from swe_sdk.errors import InputError, SandboxError
from swe_sdk.model.record import Record
from swe_sdk.runs.checkpoints.journal import CheckpointJournal, leaked_snapshots, leaks_of
from swe_sdk.runs.checkpoints.participants import tell_released
from swe_sdk.runs.checkpoints.places import Swept, complete_ids, original_of, sweep_snapshots
from swe_sdk.runs.checkpoints.series import has_indexes, indexes_here, nodes_elsewhere
from swe_sdk.runs.folder import load_plan
from swe_sdk.runs.lock import held_run
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.registry import named_provider, provider_names
from swe_sdk.store.layout import is_run
from swe_sdk.store.writer import RunWriter


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
    if not has_indexes(run_dir):
        return []
    plan = await to_thread.run_sync(load_plan, run_dir)
    if plan is not None and "provider" in plan.given:
        return [RunSnapshots(run=run_dir.name, skipped="its provider was handed over as an object: resume the run")]
    if not reap:
        return await _audited(run_dir)
    original = await to_thread.run_sync(original_of, run_dir)
    if original is not None:
        return [RunSnapshots(run=run_dir.name, skipped=f"they are those of {original}, of which this is a copy")]
    try:
        with held_run(run_dir):
            return await _reaped(run_dir)
    except InputError:
        return [one.model_copy(update={"skipped": "it is under way"}) for one in await _audited(run_dir)]


async def _audited(run_dir: Path) -> list[RunSnapshots]:
    kept = await to_thread.run_sync(complete_ids, run_dir)
    folders = await to_thread.run_sync(partial(indexes_here, run_dir, with_live=True))
    found = []
    for name in await to_thread.run_sync(_providers, folders):
        async with _named(name) as provider:
            audited = merged([await audit(folder, provider, kept=kept) for folder in folders])
        found.append(RunSnapshots(run=run_dir.name, provider=name, found=audited))
    return found + await to_thread.run_sync(_elsewhere, run_dir)


def _elsewhere(run_dir: Path) -> list[RunSnapshots]:
    """What cannot be seen from here."""
    nodes = nodes_elsewhere(run_dir)
    return [RunSnapshots(run=run_dir.name, skipped=f"others lie on the node {node}: look there") for node in nodes]


async def _reaped(run_dir: Path) -> list[RunSnapshots]:
    """Delete, and then write it down: a full disk hinders only the second."""
    leaks = await to_thread.run_sync(leaked_snapshots, run_dir)
    swept = {}
    known = await to_thread.run_sync(_providers, await to_thread.run_sync(indexes_here, run_dir))
    for name in sorted({*known, *({row.provider for row in leaks.values()} & set(provider_names()))}):
        async with _named(name) as provider:
            swept[name] = await sweep_snapshots(run_dir, provider, leaks_of(leaks, provider))
    note = await _written_down(run_dir, list(swept.values()))
    reaped = [
        RunSnapshots(run=run_dir.name, provider=name, found=one.found, reaped=True, skipped=note)
        for name, one in swept.items()
    ]
    return reaped + await to_thread.run_sync(_elsewhere, run_dir)


async def tidy_node(run_dir: Path) -> None:
    """Delete what no complete checkpoint needs of this node's snapshots, in a process that uses its providers still."""
    folders = await to_thread.run_sync(indexes_here, run_dir)
    gone: list[str] = []
    for name in await to_thread.run_sync(_providers, folders):
        gone += (await sweep_snapshots(run_dir, named_provider(name))).gone
    if gone:
        with await to_thread.run_sync(RunWriter, run_dir) as writer:
            await tell_released(writer, gone)


async def _written_down(run_dir: Path, swept: Sequence[Swept]) -> str:
    """Tell the journal of the run; returns why that failed, if it did."""
    if not any(one.gone for one in swept):
        return ""
    failed = ""
    try:
        with await to_thread.run_sync(RunWriter, run_dir) as writer:
            journal = CheckpointJournal(writer)
            await journal.open()
            for one in swept:
                await journal.gone(one)
    except* (SandboxError, OSError) as errors:
        failed = f"reaped, but not written down: {errors.exceptions[0]}"
    return failed


def _providers(folders: Sequence[Path]) -> list[str]:
    return sorted({entry.provider for folder in folders for entry in SnapshotIndex(folder).entries().values()})


@asynccontextmanager
async def _named(name: str) -> AsyncIterator[SandboxProvider]:
    provider = named_provider(name)
    try:
        yield provider
    finally:
        await provider.aclose()
