"""What an index says of checkpoints, put right by what lies on the disk: that decides what can be restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from swe_sdk.store.checkpoints import Standing, checkpoints_folder, folders, look_at, snapshots_folder, standing
from swe_sdk.store.rows import CheckpointRow, CheckpointState

_STATES: Mapping[Standing, CheckpointState] = {"complete": "kept", "released": "released", "incomplete": "saving"}
_GONE = "its folder is gone"


def as_on_disk(run: str, run_dir: Path, told: Sequence[CheckpointRow]) -> list[CheckpointRow]:
    """The checkpoints of a run that its journals tell of, and those that only lie there, each as it is there."""
    found = _standings(run_dir)
    if found is None:
        return list(told)
    known = {row.checkpoint_id for row in told}
    unknown = [CheckpointRow(run=run, checkpoint_id=name) for name in found if name not in known]
    return [_put_right(row, run_dir, found.get(row.checkpoint_id)) for row in (*told, *unknown)]


def kept_on_disk(run_dir: Path, told: Iterable[str]) -> list[str]:
    """The ids of those that can be restored; ``told`` are those that the journals say are kept."""
    found = _standings(run_dir)
    return list(told) if found is None else [name for name, how in found.items() if how == "complete"]


def _standings(run_dir: Path) -> dict[str, Standing] | None:
    """By id; None where the run has never kept any here, such as one of which only the journals were copied."""
    directory = checkpoints_folder(run_dir)
    if not directory.is_dir() and not snapshots_folder(run_dir).is_dir():
        return None
    return {path.name: standing(path) for path in folders(directory)}


def _put_right(row: CheckpointRow, run_dir: Path, how: Standing | None) -> CheckpointRow:
    if how is None:
        is_lost = row.state == "kept"
        return row.model_copy(update={"state": "released", "state_reason": _GONE}) if is_lost else row
    changes: dict[str, object] = {} if row.state == _STATES[how] else {"state": _STATES[how], "state_reason": ""}
    if how != "incomplete" and row.saved_at is None:  # a kill came before the journal heard of it
        saved = look_at(checkpoints_folder(run_dir) / row.checkpoint_id)
        told = saved.told.model_dump(include=set(CheckpointRow.model_fields) - {"checkpoint_id"})
        changes |= {**told, "saved_at": saved.details.created_at}
    return row.model_copy(update=changes)
