"""What the records of all workers come to in one file. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from swe_sdk.checkpoint.messages import EpisodeId, Kind
from swe_sdk.checkpoint.records import (
    AgentSessionRecord,
    CheckpointRecord,
    EpisodeRecord,
    ModelRecord,
    ResourcesSessionRecord,
)

RECORDS: Mapping[Kind, type[CheckpointRecord]] = {
    "environment": EpisodeRecord,
    "agent": AgentSessionRecord,
    "model": ModelRecord,
    "resources": ResourcesSessionRecord,
}


def joint(
    kind: Kind, exported: Mapping[str, Iterable[Any]], superseded: Mapping[str, Container[str]]
) -> list[CheckpointRecord]:
    """The records of all workers, as the types of their kind; each session says who had it.

    ``superseded``: by worker, the sessions that another one has of a later attempt.
    """
    records: list[CheckpointRecord] = []
    for worker in sorted(exported):
        for plain in exported[worker]:
            record = RECORDS[kind].model_validate(plain)
            if session_of(record) in superseded.get(worker, ()):
                continue
            if isinstance(record, ResourcesSessionRecord):
                record = record.model_copy(update={"owner": worker})
            records.append(record)
    return _one_ledger(records) if kind == "model" else records


def _one_ledger(records: Iterable[CheckpointRecord]) -> list[CheckpointRecord]:
    """The calls of a rollout, wherever they were made: workers one after the other, since rows tell no common time."""
    found: dict[EpisodeId, ModelRecord] = {}
    for record in records:
        assert isinstance(record, ModelRecord)
        before = found.get(record.episode_id)
        if before is not None:
            rows, cuts = [*before.rows, *record.rows], [*before.generation_cuts, *record.generation_cuts]
            record = record.model_copy(update={"rows": rows, "generation_cuts": cuts})
        found[record.episode_id] = record
    return list(found.values())


def session_of(record: CheckpointRecord) -> str | None:
    """Which session a record is of, if of any."""
    if isinstance(record, AgentSessionRecord):
        return record.session_key
    return record.session_id if isinstance(record, ResourcesSessionRecord) else None
