"""Checkpoints as they lie on the disk. What is there decides what can be restored; journals follow it.

::

    RUN/checkpoints/<checkpoint id>/gym_checkpoint.json     written last: the checkpoint is complete
                                   /details.json            what people want to know of it
                                   /released.json           it was dropped; written before anything of it is freed

An id is ``<series>-<number>-<random>``. Each process that saves has a series of its own, so that none keeps or drops
what is another's: ``checkpoint`` where one process carries out the whole run, ``checkpoint.<random>`` for a worker.

:mod:`swe_sdk.checkpoint.catalog` writes them. Plain functions that block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from swe_sdk.model.record import Record
from swe_sdk.store.events import CheckpointSaved

COMPLETE, DETAILS, RELEASED = "gym_checkpoint.json", "details.json", "released.json"
SANDBOXES = "sandboxes"
"""The participant of a run that has its sandboxes."""
Standing = Literal["complete", "released", "incomplete"]
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NUMBER = re.compile(r"(checkpoint(?:\.[0-9a-f]+)?)-([0-9]{1,9})-")
WHOLE_RUN = "checkpoint"
"""The series of a process that carries out all of its run."""


class Details(Record):
    """What people want to know of a checkpoint; nothing of it is needed to restore."""

    number: int = Field(ge=1)
    created_at: float
    """Unix seconds."""
    phases_s: dict[str, float] = Field(default_factory=dict)
    """How long prepare, commit and resume took."""
    records: dict[str, int] = Field(default_factory=dict)
    bytes: dict[str, int] = Field(default_factory=dict)
    """Both by participant."""
    restarts: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Episodes it does not hold, by the participant that said so."""
    score: float | None = None


class Saved(Record):
    """A checkpoint on disk."""

    checkpoint_id: str
    path: str
    details: Details
    status: Standing

    @property
    def told(self) -> CheckpointSaved:
        """What the journal of its run hears of it, or is still to hear."""
        details = self.details
        return CheckpointSaved(
            checkpoint_id=self.checkpoint_id,
            path=self.path,
            records=sum(details.records.values()),
            restarts=len({name for names in details.restarts.values() for name in names}),
            snapshots=details.records.get(SANDBOXES, 0),
            size_bytes=sum(details.bytes.values()),
            seconds=sum(details.phases_s.values()),
        )


def checkpoints_folder(run_dir: Path) -> Path:
    """A folder a checkpoint."""
    return run_dir / "checkpoints"


def snapshots_folder(run_dir: Path, series: str = WHOLE_RUN) -> Path:
    """The index of the snapshots of a series; the snapshots themselves are where the provider has them."""
    folder = run_dir / "snapshots"
    return folder if series == WHOLE_RUN else folder / series


def series_of(checkpoint_id: str) -> str:
    """Whose it is; an id that others have made counts as the whole run's."""
    told = _NUMBER.match(checkpoint_id)
    return told[1] if told else WHOLE_RUN


def folders(directory: Path) -> Iterator[Path]:
    """Of all checkpoints; one by another name is none."""
    found = directory.iterdir() if directory.is_dir() else ()
    return (path for path in found if _ID.fullmatch(path.name) and path.is_dir())


def standing(path: Path) -> Standing:
    """Whether a checkpoint can be restored, was dropped, or was never completed."""
    if (path / COMPLETE).exists():
        return "complete"
    return "released" if (path / RELEASED).exists() else "incomplete"


def look_at(path: Path) -> Saved:
    """A checkpoint by its folder."""
    try:
        details = Details.model_validate_json((path / DETAILS).read_bytes())
    except (OSError, ValidationError):  # one of NeMo Gym's has none
        told = _NUMBER.match(path.name)
        details = Details(number=max(1, int(told[2])) if told else 1, created_at=path.stat().st_mtime)
    return Saved(checkpoint_id=path.name, path=str(path), details=details, status=standing(path))
