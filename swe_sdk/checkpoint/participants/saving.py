"""A participant's records to disk and back, in threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from swe_sdk.checkpoint import store
from swe_sdk.checkpoint.messages import CommitReply, CommitRequest, Kind, RestoreRequest
from swe_sdk.checkpoint.records import CheckpointRecord
from swe_sdk.checkpoint.telemetry import span

R = TypeVar("R", bound=CheckpointRecord)


async def write(
    kind: Kind,
    instance: str,
    request: CommitRequest,
    records: Sequence[CheckpointRecord],
    *,
    extras: Mapping[str, Any] | None = None,
) -> CommitReply:
    """Write records, then the manifest; cancelled before that, there is no checkpoint, and never half of one.

    ``extras`` are further keys of the manifest.
    """
    place = store.folder(Path(request.checkpoint_dir), kind, instance)
    with span("write", id=request.checkpoint_id) as current:
        data = await to_thread.run_sync(store.encode, records)
        digest = await to_thread.run_sync(store.write_records, place, data)
        current.set_attribute("bytes", len(data))
        await anyio.lowlevel.checkpoint()  # the last chance to give up
        manifest = store.Manifest(
            kind=kind,
            instance=instance,
            checkpoint_id=request.checkpoint_id,
            records_file=f"records-{digest}.jsonl",
            records_sha256=digest,
            record_count=len(records),
            **(extras or {}),
        )
        with anyio.CancelScope(shield=True):
            path = await to_thread.run_sync(store.write_manifest, place, manifest)
    return CommitReply(
        checkpoint_id=request.checkpoint_id,
        manifest=str(path),
        record_count=len(records),
        records_sha256=digest,
        bytes=len(data),
    )


async def read(kind: Kind, instance: str, request: RestoreRequest, record_type: type[R]) -> list[R]:
    """The records in scope, after digest and count were checked."""
    place = store.folder(Path(request.checkpoint_dir), kind, instance)

    def load() -> list[R]:
        return store.read_records(place, record_type, checkpoint_id=request.checkpoint_id, scope=request.episode_ids)

    with span("read", id=request.checkpoint_id):
        return await to_thread.run_sync(load)
