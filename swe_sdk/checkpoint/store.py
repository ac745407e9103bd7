"""Records on disk, in NeMo Gym's layout.

::

    <checkpoint_dir>/gym/<kind>/<instance>/records-<sha256>.jsonl
                                          /manifest.json          written last, by hard link, and never replaced

A directory without a manifest holds no checkpoint of that participant. Plain functions that block: call them in a
thread.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, Kind
from swe_sdk.checkpoint.records import CheckpointRecord
from swe_sdk.errors import CheckpointError
from swe_sdk.files import write_atomic
from swe_sdk.model.ids import new_id, safe_name
from swe_sdk.model.record import Record

MANIFEST = "manifest.json"
R = TypeVar("R", bound=CheckpointRecord)


class Manifest(Record):
    """What a participant wrote; further keys (such as ``session_owners``) are kept."""

    model_config = ConfigDict(extra="allow")

    schema_version: Literal[1] = 1
    kind: Kind
    instance: str
    checkpoint_id: str
    records_file: str = Field(pattern=r"^records-[0-9a-f]{64}\.jsonl$")
    records_sha256: str
    record_count: int = Field(ge=0)


def folder(checkpoint_dir: Path, kind: Kind, instance: str) -> Path:
    """Where a participant's part of a checkpoint is."""
    return checkpoint_dir / "gym" / kind / safe_name(instance)


def encode(records: Iterable[CheckpointRecord]) -> bytes:
    """Records as lines of JSON; keys stay in their order."""
    lines = (json.dumps(record.model_dump(mode="json", by_alias=True)) for record in records)
    return "".join(f"{line}\n" for line in lines).encode()


def write_records(place: Path, data: bytes) -> str:
    """Write encoded records below their own digest, durable when this returns; returns the digest."""
    digest = hashlib.sha256(data).hexdigest()
    place.mkdir(parents=True, exist_ok=True)
    write_atomic(place / f"records-{digest}.jsonl", data)
    return digest


def write_manifest(place: Path, manifest: Manifest) -> Path:
    """Put the manifest in place, once and for all.

    One that is there already is left as it is: with the same content it is this one, with other content the checkpoint
    belongs to somebody else (``invalid_checkpoint_state``).
    """
    final = place / MANIFEST
    data = json.dumps(manifest.model_dump(mode="json"), indent=1).encode()
    temporary = place / f".{MANIFEST}.{new_id('tmp')}"
    write_atomic(temporary, data)
    try:
        os.link(temporary, final)
    except FileExistsError:
        if read_manifest(place) != manifest:
            raise refuse("invalid_checkpoint_state", f"{final} is there already, with other content") from None
    finally:
        temporary.unlink()
    sync_directory(place)
    return final


def read_manifest(place: Path) -> Manifest:
    """The manifest below ``place``; ``invalid_checkpoint_state`` where there is none that can be read."""
    try:
        return Manifest.model_validate_json((place / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise refuse("invalid_checkpoint_state", f"{place} has no manifest: it was not completed") from None
    except (OSError, ValidationError) as error:
        raise refuse("invalid_checkpoint_state", f"{place / MANIFEST}: {error}") from error


def read_records(
    place: Path, record_type: type[R], *, checkpoint_id: str, scope: Sequence[EpisodeId] | None
) -> list[R]:
    """The records of the episodes in ``scope`` (None = all), after the digest and the count of all were checked.

    Records out of scope are not looked into: one of them may be of a kind that nobody here can read.
    """
    manifest = read_manifest(place)
    if manifest.checkpoint_id != checkpoint_id:
        raise refuse("invalid_checkpoint_state", f"{place} holds checkpoint {manifest.checkpoint_id}")
    wanted = None if scope is None else {(one.rollout_id, one.attempt) for one in scope}
    rows = [row for row in _rows(place, manifest) if wanted is None or _identity(row) in wanted]
    try:
        return [record_type.model_validate(row) for row in rows]
    except ValidationError as error:
        raise refuse("invalid_checkpoint_state", f"a record in {place} is malformed: {error}") from error


def check(place: Path) -> Manifest:
    """Read everything and compare digest and count; ``invalid_checkpoint_state`` if anything is off."""
    manifest = read_manifest(place)
    _rows(place, manifest)
    return manifest


def _rows(place: Path, manifest: Manifest) -> list[dict[str, Any]]:
    path = place / manifest.records_file
    try:
        data = path.read_bytes()
        rows = [json.loads(line) for line in data.splitlines()]
    except (OSError, ValueError) as error:
        raise _unusable(path, str(error)) from error
    if hashlib.sha256(data).hexdigest() != manifest.records_sha256:
        raise _unusable(path, "its digest is not that of the manifest")
    if len(rows) != manifest.record_count:
        raise _unusable(path, f"it has {len(rows)} records, and not {manifest.record_count}")
    return rows


def _identity(row: dict[str, Any]) -> tuple[Any, Any]:
    identity = row.get("episode_id")
    return (identity.get("rollout_id"), identity.get("attempt")) if isinstance(identity, dict) else (None, None)


def _unusable(path: Path, problem: str) -> CheckpointError:
    return refuse("invalid_checkpoint_state", f"{path}: {problem}")


def sync_directory(place: Path) -> None:
    """Make renames and links in a directory durable."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
