"""The checkpoints of a run on disk: made complete, read, dropped.

What lies where, and what it means, is said by :mod:`swe_sdk.store.checkpoints`; the records below ``gym`` by
:mod:`swe_sdk.checkpoint.store`.

Plain functions that block: call them in a thread.
"""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Literal

from pydantic import ValidationError, field_validator

from swe_sdk.checkpoint import store
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import CheckpointId, EpisodeId
from swe_sdk.checkpoint.retention import Candidate
from swe_sdk.errors import CheckpointError
from swe_sdk.files import write_atomic
from swe_sdk.model.record import Record
from swe_sdk.store.checkpoints import COMPLETE, DETAILS, RELEASED, Details, Saved, folders, look_at, series_of


class BadCheckpoint(UserWarning):
    """A checkpoint on disk was skipped, because something of it is missing or damaged."""


class GymCheckpoint(Record):
    """NeMo Gym's file of a whole checkpoint; unknown fields and episodes named twice are refused."""

    schema_version: Literal[1, 2] = 2
    """1 has no staging keys."""
    checkpoint_id: CheckpointId
    instances: dict[str, tuple[EpisodeId, ...]]
    """The episodes it holds, by deployment."""
    staging_keys: tuple[str, ...] = ()

    @field_validator("instances")
    @classmethod
    def _once(cls, instances: dict[str, tuple[EpisodeId, ...]]) -> dict[str, tuple[EpisodeId, ...]]:
        names = [episode.rollout_id for episodes in instances.values() for episode in episodes]
        if len(set(names)) < len(names):
            raise ValueError("a rollout is named twice")
        return instances

    @property
    def episodes(self) -> tuple[EpisodeId, ...]:
        """Of all deployments."""
        return tuple(episode for episodes in self.instances.values() for episode in episodes)


def complete(path: Path, checkpoint: GymCheckpoint, details: Details) -> None:
    """Declare a checkpoint complete; all of it is on disk when this returns."""
    path.mkdir(parents=True, exist_ok=True)
    describe(path, details)
    write_atomic(path / COMPLETE, json.dumps(checkpoint.model_dump(mode="json"), indent=1).encode())
    store.sync_directory(path)


def describe(path: Path, details: Details) -> None:
    """Write what people want to know."""
    write_atomic(path / DETAILS, details.model_dump_json(indent=1).encode())


def read(path: Path) -> GymCheckpoint:
    """A complete checkpoint, every part of which was read and fits; else ``invalid_checkpoint_state``."""
    try:
        checkpoint = GymCheckpoint.model_validate_json((path / COMPLETE).read_bytes())
    except (OSError, ValidationError) as error:
        raise refuse("invalid_checkpoint_state", f"{path / COMPLETE}: {error}") from error
    for manifest in sorted(path.glob(f"gym/*/*/{store.MANIFEST}")):
        if store.check(manifest.parent).checkpoint_id != checkpoint.checkpoint_id:
            raise refuse("invalid_checkpoint_state", f"{manifest} is of another checkpoint")
    return checkpoint


def listing(directory: Path, series: str | None = None) -> list[Saved]:
    """All checkpoints (of a series), in the order in which they were saved; a folder by another name is none."""
    chosen = (path for path in folders(directory) if series is None or series_of(path.name) == series)
    return sorted(map(look_at, chosen), key=lambda one: (one.details.number, one.checkpoint_id))


def newest(directory: Path, series: str | None = None) -> Path | None:
    """The newest complete checkpoint that can be read whole; damaged ones are skipped with a warning."""
    for saved in reversed(listing(directory, series)):
        if saved.status != "complete":
            continue
        try:
            read(Path(saved.path))
        except CheckpointError as error:
            warnings.warn(f"checkpoint {saved.checkpoint_id} is skipped: {error.detail}", BadCheckpoint, stacklevel=2)
            continue
        return Path(saved.path)
    return None


def candidates(directory: Path, series: str | None = None) -> list[Candidate]:
    """The complete ones, for a retention policy."""
    return [
        Candidate(checkpoint_id=one.checkpoint_id, number=one.details.number, score=one.details.score)
        for one in listing(directory, series)
        if one.status == "complete"
    ]


def discard_incomplete(path: Path) -> None:
    """Remove what a save has left that did not succeed."""
    if not (path / COMPLETE).exists():
        shutil.rmtree(path, ignore_errors=True)


def mark_released(path: Path) -> None:
    """From now on it is no checkpoint any more: to be done before anything that it needs is freed."""
    if (path / COMPLETE).exists():
        (path / COMPLETE).replace(path / RELEASED)
        store.sync_directory(path)


def remove_records(path: Path) -> None:
    """Free the disk of a released checkpoint; who looks still finds when it was, and how large."""
    shutil.rmtree(path / "gym", ignore_errors=True)
