"""The folders of made-up checkpoints, and the index of their snapshots, as a run leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.made_up_checkpoints import Held, Told, kept_of, phases_of
from benchmarks.made_up_runs import BUDGET_S
from swe_sdk.checkpoint import catalog, store
from swe_sdk.checkpoint.messages import EpisodeId, Kind
from swe_sdk.checkpoint.records import CheckpointRecord, EpisodeRecord, ResourcesSessionRecord
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxState
from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.model.budget import Budget
from swe_sdk.rollouts.bookmark import Bookmark
from swe_sdk.runs.checkpoints.participants import ROLLOUTS
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.store.checkpoints import SANDBOXES, Details, checkpoints_folder, snapshots_folder
from swe_sdk.store.writer import RunWriter


def write_folders(writer: RunWriter, told: Sequence[Told], began: float, provider: str, *, is_over: bool) -> None:
    """Their folders, whole where they are kept; and the index of snapshots."""
    keep = frozenset() if is_over else _kept_in_the_end(told)
    index = SnapshotIndex(snapshots_folder(writer.path))
    for one in told:
        name = one.save.checkpoint_id
        path = checkpoints_folder(writer.path) / name
        held = [each for each in one.held if not each.reason]
        if name in keep:
            _write_records(path, name, held, provider, began + one.save.at)
            index.refer(name, provider, {e.life.rollout_id: e.snapshot for e in held if e.snapshot is not None})
        checkpoint = catalog.GymCheckpoint(checkpoint_id=name, instances={"run": tuple(map(_id, held))})
        catalog.complete(path, checkpoint, _details(one, began))
        if name not in keep:
            catalog.mark_released(path)


def _kept_in_the_end(told: Sequence[Told]) -> frozenset[str]:
    alive: list[Told] = []
    for one in told:
        keep = kept_of([*alive, one])
        alive = [each for each in (*alive, one) if each.save.checkpoint_id in keep]
    return frozenset(each.save.checkpoint_id for each in alive)


def _details(one: Told, began: float) -> Details:
    held = [each for each in one.held if not each.reason]
    boxes = sum(each.snapshot is not None for each in held)
    return Details(
        number=one.number,
        created_at=began + one.save.at + one.save.held_s,
        phases_s=phases_of(one),
        records={ROLLOUTS: len(held), SANDBOXES: boxes},
        bytes={ROLLOUTS: 1200 * len(held), SANDBOXES: 500 * boxes},
    )


def _write_records(path: Path, name: str, held: Sequence[Held], provider: str, at: float) -> None:
    frozen = [each for each in held if each.snapshot is not None]
    _write(path, name, "environment", ROLLOUTS, [_episode(each) for each in held])
    _write(path, name, "resources", SANDBOXES, [_box(each, provider, at) for each in frozen])


def _episode(held: Held) -> EpisodeRecord:
    mark = Bookmark(
        rollout_id=held.life.rollout_id,
        attempt=held.attempt,
        next=held.boundary,
        budget=Budget(total_s=BUDGET_S, spent_s=held.spent_s),
        agent_state={"messages": int(held.spent_s / 20)} if held.boundary == "invoke_agent" else None,
    )
    return EpisodeRecord(
        episode_id=_id(held),
        task_digest="0" * 64,
        boundary=mark.model_dump(mode="json"),
        budget_spent_s=held.spent_s,
    )


def _box(held: Held, provider: str, at: float) -> ResourcesSessionRecord:
    assert held.snapshot is not None
    state = SandboxState(
        provider_name=provider,
        descriptor={"id": f"box-{held.life.rollout_id}"},
        snapshot_id=held.snapshot,
        spec=SandboxSpec(),
        snapshot_at=at,
    )
    name = held.life.rollout_id
    return ResourcesSessionRecord(episode_id=_id(held), session_id=name, state=state.model_dump(mode="json"))


def _id(held: Held) -> EpisodeId:
    return EpisodeId(rollout_id=held.life.rollout_id, attempt=held.attempt)


def _write(path: Path, name: str, kind: Kind, instance: str, records: Sequence[CheckpointRecord]) -> None:
    place = store.folder(path, kind, instance)
    digest = store.write_records(place, store.encode(records))
    manifest = store.Manifest(
        kind=kind,
        instance=instance,
        checkpoint_id=name,
        records_file=f"records-{digest}.jsonl",
        records_sha256=digest,
        record_count=len(records),
    )
    store.write_manifest(place, manifest)
