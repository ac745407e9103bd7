"""Where a run keeps its checkpoints, and the index of their snapshots."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint import catalog
from swe_sdk.checkpoint.snapshots.sweep import sweep
from swe_sdk.sandbox.contract import SandboxProvider


def checkpoints_folder(run_dir: Path) -> Path:
    """A folder a checkpoint."""
    return run_dir / "checkpoints"


def snapshots_folder(run_dir: Path) -> Path:
    """The index of snapshots; the snapshots themselves are where the provider has them."""
    return run_dir / "snapshots"


def has_snapshots(run_dir: Path) -> bool:
    """Whether a snapshot was ever made for the run."""
    return (snapshots_folder(run_dir) / "snapshots.jsonl").exists()


def complete_ids(run_dir: Path) -> tuple[str, ...]:
    """The checkpoints that can be restored, oldest first."""
    found = catalog.listing(checkpoints_folder(run_dir))
    return tuple(one.checkpoint_id for one in found if one.status == "complete")


async def sweep_snapshots(run_dir: Path, provider: SandboxProvider) -> tuple[str, ...]:
    """Delete the snapshots of a run that none of its complete checkpoints needs. Nothing may be saving meanwhile."""
    if "snapshots" not in provider.capabilities or not await to_thread.run_sync(has_snapshots, run_dir):
        return ()
    kept = await to_thread.run_sync(complete_ids, run_dir)
    return (await sweep(snapshots_folder(run_dir), provider, kept=kept)).unneeded
