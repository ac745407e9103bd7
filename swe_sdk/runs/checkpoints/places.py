"""Where a run keeps its checkpoints, and the index of their snapshots."""

from __future__ import annotations

import json
from pathlib import Path

from anyio import to_thread

from swe_sdk.checkpoint import catalog
from swe_sdk.checkpoint.snapshots.sweep import sweep
from swe_sdk.errors import InputError
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.contract import SandboxProvider

_HOME = "home.json"


def checkpoints_folder(run_dir: Path) -> Path:
    """A folder a checkpoint."""
    return run_dir / "checkpoints"


def snapshots_folder(run_dir: Path) -> Path:
    """The index of snapshots; the snapshots themselves are where the provider has them."""
    return run_dir / "snapshots"


def has_snapshots(run_dir: Path) -> bool:
    """Whether a snapshot was ever made for the run."""
    return (snapshots_folder(run_dir) / "snapshots.jsonl").exists()


def original_of(run_dir: Path) -> Path | None:
    """The run that this one is a copy of, as long as that is where it was: the snapshots are those of the original.

    A run that was moved has none, and takes them along.
    """
    told = _home(run_dir)
    if told is None:
        return None
    original = Path(told["path"])
    there = _home(original)
    is_copied = there is not None and there["id"] == told["id"] and not original.samefile(run_dir)
    return original if is_copied else None


def require_original(run_dir: Path) -> None:
    """``InputError`` for a copy: going on with it would delete what the checkpoints of the original need."""
    original = original_of(run_dir)
    if original is not None:
        raise InputError(
            f"{run_dir} is a copy of {original}, whose checkpoints need the same snapshots",
            remedy="resume that one; or remove the folders checkpoints and snapshots of the copy, and it starts over",
        )


def settle(run_dir: Path) -> None:
    """Write down that the run is here."""
    told = _home(run_dir)
    if told is None or told["path"] != str(run_dir):
        snapshots_folder(run_dir).mkdir(exist_ok=True)
        home = {"path": str(run_dir), "id": told["id"] if told else new_id("home")}
        write_atomic(snapshots_folder(run_dir) / _HOME, json.dumps(home).encode())


def _home(run_dir: Path) -> dict[str, str] | None:
    try:
        told = json.loads((snapshots_folder(run_dir) / _HOME).read_bytes())
    except (OSError, ValueError):
        return None
    is_whole = isinstance(told, dict) and all(isinstance(told.get(key), str) for key in ("path", "id"))
    return told if is_whole else None


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
