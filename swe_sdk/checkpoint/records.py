"""What a checkpoint holds: one line of JSON a record, with NeMo Gym's field names."""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, ConfigDict, Field

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.model.record import Record


class CheckpointRecord(Record):
    """The base of all records: whose it is."""

    model_config = ConfigDict(populate_by_name=True)

    episode_id: EpisodeId


class EpisodeRecord(CheckpointRecord):
    """Where an episode continues, and what it has used up."""

    task_digest: str
    """Sha256 of the canonical JSON of its task."""
    boundary: Any = None
    """The bookmark recorded last; None = it starts over."""
    budget_spent_s: float = Field(
        default=0.0,
        ge=0,
        validation_alias=AliasChoices("elapsed_s", "budget_spent_s"),
        serialization_alias="elapsed_s",
    )
    """Seconds of budget used up to the cut, over all attempts; parked time is not in it. 0 in older records."""


class AgentSessionRecord(CheckpointRecord):
    """One session of an agent: what it was seeded with, what it has replied, and where its activation continues."""

    session_key: str
    session: dict[str, Any]
    boundary: Any = None
    """What the activation under way has recorded last; None = it starts over, or none is under way."""
    episode: Any = None
    """Older checkpoints name the episode once more; not read."""


class ResourcesSessionRecord(CheckpointRecord):
    """One session of a resources server."""

    session_id: str
    state: Any = None
    owner: str | None = None
    """Which worker had it."""


class ModelRecord(CheckpointRecord):
    """The model calls of a rollout that were delivered, and where its generations were cut."""

    rows: list[dict[str, Any]] = Field(default_factory=list)
    generation_cuts: list[dict[str, Any]] = Field(default_factory=list)
