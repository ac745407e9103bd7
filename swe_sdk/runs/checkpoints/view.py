"""Checkpoints of a run, looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from pydantic import Field

from swe_sdk.checkpoint import catalog, store
from swe_sdk.checkpoint.records import EpisodeRecord
from swe_sdk.errors import InputError
from swe_sdk.model.budget import Budget
from swe_sdk.model.columns import frame_of
from swe_sdk.model.record import Record
from swe_sdk.rollouts.bookmark import Bookmark, RolloutStage
from swe_sdk.runs.checkpoints.participants import ROLLOUTS
from swe_sdk.runs.frames import CHECKPOINTS, HELD
from swe_sdk.shown import Shown, one_line
from swe_sdk.store.checkpoints import SANDBOXES, Saved, checkpoints_folder
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import CheckpointRolloutRow, SnapshotRow

if TYPE_CHECKING:
    import pandas as pd

Status = Literal["kept", "released", "incomplete"]
_STATUS: dict[str, Status] = {"complete": "kept", "released": "released", "incomplete": "incomplete"}


class HeldRollout(Record):
    """What a checkpoint holds of one rollout."""

    rollout_id: str
    attempt: int = Field(ge=1)
    """The one that was cut; it goes on as a later one."""
    next: RolloutStage
    """The stage that it goes on with."""
    budget: Budget
    agent_state: dict[str, Any] | None = None
    """As the agent gave it; None = it had not begun, or is over."""
    snapshot: str | None = None
    """Of its sandbox."""


class Checkpoint(Shown):
    """One checkpoint. Its numbers stay when it is released; :meth:`inspect` needs its records."""

    def __init__(self, saved: Saved, index: RunIndex) -> None:
        self._saved, self._index = saved, index

    @property
    def id(self) -> str:
        """``checkpoint-<number>-<random>``; of a worker, ``checkpoint.<series>-<number>-<random>``."""
        return self._saved.checkpoint_id

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self._saved.path)

    @property
    def status(self) -> Status:
        """``kept`` can be restored; ``released`` was dropped; ``incomplete`` was cut by a crash."""
        return _STATUS[self._saved.status]

    @property
    def created_at(self) -> datetime:
        """When it was complete, in UTC."""
        return datetime.fromtimestamp(self._saved.details.created_at, UTC)

    @property
    def phases_s(self) -> dict[str, float]:
        """Seconds of prepare (until everything stood), commit and resume."""
        return self._saved.details.phases_s

    @property
    def records(self) -> dict[str, int]:
        """How many were written, by participant."""
        return self._saved.details.records

    @property
    def snapshots(self) -> int:
        """How many sandboxes it needs."""
        return self.records.get(SANDBOXES, 0)

    @property
    def bytes(self) -> int:
        """Of its records; sandboxes are the provider's."""
        return sum(self._saved.details.bytes.values())

    @property
    def score(self) -> float | None:
        """Mean reward of the run then, over what was measured."""
        return self._saved.details.score

    @cached_property
    def rollouts(self) -> tuple[CheckpointRolloutRow, ...]:
        """All that were under way: saved at which boundary, or a restart and why."""
        return tuple(self._index.checkpoint_rollouts(self.id))

    @property
    def restarts(self) -> dict[str, str]:
        """Rollouts that it does not hold, and why."""
        return {row.rollout_id: row.reason for row in self.rollouts if row.held == "restart"}

    def snapshot_rows(self) -> tuple[SnapshotRow, ...]:
        """The snapshots that it refers to."""
        return tuple(row for row in self._index.snapshots() if self.id in row.referenced_by)

    def inspect(self) -> list[HeldRollout]:
        """Everything that it holds, checked against its digests.

        Raises ``InputError`` where it was released or never complete, ``CheckpointError`` where it is damaged.
        """
        if self.status != "kept":
            raise InputError(f"checkpoint {self.id} is {self.status}: it holds nothing")
        snapshots = {row["session_id"]: row["state"]["snapshot_id"] for row in self._rows("resources", SANDBOXES)}
        return [_held(row, snapshots) for row in self._rows("environment", ROLLOUTS)]

    def _rows(self, kind: str, instance: str) -> list[dict[str, Any]]:
        place = store.folder(self.path, kind, instance)  # type: ignore[arg-type]
        manifest = store.check(place)
        return [json.loads(line) for line in (place / manifest.records_file).read_bytes().splitlines()]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "checkpoint_id": self.id,
            "status": self.status,
            "created_at": self.created_at.isoformat(),
            **{f"{name}_s": round(seconds, 4) for name, seconds in self.phases_s.items()},
            "rollouts": self.records.get(ROLLOUTS, 0),
            "snapshots": self.snapshots,
            "restarts": len(self.restarts),
            "bytes": self.bytes,
            "score": self.score,
        }

    def to_frame(self) -> pd.DataFrame:
        """A row a rollout that was under way, by its id: saved at which boundary, or a restart and why."""
        return frame_of(HELD, (row.model_dump() for row in self.rollouts), index="rollout_id")

    def __repr__(self) -> str:
        held = f"{self.records.get(ROLLOUTS, 0)} rollouts, {self.snapshots} snapshots"
        return f"<Checkpoint {one_line(self.id)}: {self.status}, {held}, {len(self.restarts)} restarts>"


class Checkpoints(Shown, Sequence[Checkpoint]):
    """All checkpoints of a run, oldest first; also by id. Those that were released stay to be looked at."""

    def __init__(self, run_dir: Path, index: RunIndex) -> None:
        self._all = [Checkpoint(saved, index) for saved in catalog.listing(checkpoints_folder(run_dir))]

    @property
    def kept(self) -> list[Checkpoint]:
        """Those that can be restored."""
        return [each for each in self._all if each.status == "kept"]

    def to_frame(self) -> pd.DataFrame:
        """A row a checkpoint, by its id: seconds of each phase, counts, bytes."""
        return frame_of(CHECKPOINTS, map(_row, self._all), index="checkpoint_id")

    @overload
    def __getitem__(self, key: int | str) -> Checkpoint: ...
    @overload
    def __getitem__(self, key: slice) -> list[Checkpoint]: ...
    def __getitem__(self, key: int | str | slice) -> Checkpoint | list[Checkpoint]:
        if not isinstance(key, str):
            return self._all[key]
        found = [each for each in self._all if each.id == key]
        if not found:
            raise InputError(
                f"there is no checkpoint {key}", remedy=f"there are {', '.join(one.id for one in self._all) or 'none'}"
            )
        return found[0]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self._all)

    def __repr__(self) -> str:
        return f"<{len(self)} checkpoints, {len(self.kept)} kept>"


def _row(checkpoint: Checkpoint) -> dict[str, Any]:
    times = {"created_at": checkpoint.created_at, "size_bytes": checkpoint.bytes}
    return {**checkpoint.to_dict(), **times}


def _held(row: dict[str, Any], snapshots: dict[str, str]) -> HeldRollout:
    record = EpisodeRecord.model_validate(row)
    bookmark = Bookmark.model_validate(record.boundary)
    return HeldRollout(
        rollout_id=record.episode_id.rollout_id,
        attempt=record.episode_id.attempt,
        next=bookmark.next,
        budget=bookmark.budget,
        agent_state=bookmark.agent_state,
        snapshot=snapshots.get(record.episode_id.rollout_id),
    )
