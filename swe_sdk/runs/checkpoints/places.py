"""What a run has of checkpoints and their snapshots, and whether they are its own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from anyio import to_thread

from swe_sdk.checkpoint import catalog
from swe_sdk.checkpoint.snapshots.sweep import Audit, merged, sweep
from swe_sdk.errors import InputError
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import new_id
from swe_sdk.runs.checkpoints.series import IMPORTED, indexes_here
from swe_sdk.sandbox.contract import SandboxProvider, SupportsSnapshots
from swe_sdk.store.checkpoints import checkpoints_folder, snapshots_folder

_HOME = "home.json"


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


def release(run_dir: Path, checkpoint_ids: Iterable[str]) -> None:
    """Nobody will go on from these any more: what only they need goes with the next sweep. Blocks."""
    for checkpoint_id in checkpoint_ids:
        path = checkpoints_folder(run_dir) / checkpoint_id
        catalog.mark_released(path)
        catalog.remove_records(path)


class Swept(NamedTuple):
    """What a sweep has found and done."""

    found: Audit
    """As it was before."""
    gone: tuple[str, ...]
    """Snapshots that are not there any more: what the journal is to hear of."""


async def sweep_snapshots(run_dir: Path, provider: SandboxProvider, leaks: Collection[str] = ()) -> Swept:
    """Delete the snapshots of a run that none of its complete checkpoints needs: those of this node, and of no process
    that may still be saving. One that carries out the whole run must not be saving meanwhile.

    ``leaks`` are those of this provider that the journal takes for there, and that no such checkpoint needs: a process
    may have been killed between their deletion and its word of it. What is in no index is never deleted: it may be
    that of another run, of which this one is a copy.
    """
    if "snapshots" not in provider.capabilities or not isinstance(provider, SupportsSnapshots):
        return Swept(Audit(), ())
    kept = await to_thread.run_sync(complete_ids, run_dir)
    folders = await to_thread.run_sync(indexes_here, run_dir)
    swept = {folder: await sweep(folder, provider, kept=kept) for folder in folders}
    told = merged(one for folder, one in swept.items() if folder.name != IMPORTED)  # no journal knows of the others
    gone = {*told.unneeded, *told.forgotten}
    if untold := set(leaks) - gone:
        gone |= untold - {one.id for one in await provider.snapshots()}
    return Swept(merged(swept.values()), tuple(sorted(gone)))
