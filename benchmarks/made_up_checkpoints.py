"""Checkpoints of made-up runs: what each holds, and what the journal hears of them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.made_up_lives import Life, Save, Simulated, Try
from benchmarks.made_up_runs import BUDGET_S, Timed
from swe_sdk.checkpoint.retention import Candidate, Retention, kept
from swe_sdk.store import events as ev

RETENTION = Retention(keep_last=3, keep_every=8)
_WHY_RELEASED = "the retention policy does not keep it"
_RESTARTS = (
    "its agent can only start over",
    "the seed of its sandbox was in flight",
    "its sandbox runs a container of its own, which cannot be frozen",
)


@dataclass
class Held:
    """What a checkpoint holds of one rollout."""

    life: Life
    attempt: int
    boundary: Literal["invoke_agent", "verify"]
    spent_s: float
    snapshot: str | None = None
    reason: str = ""
    """Why it is a restart; empty = it is held."""


@dataclass
class Told:
    """A checkpoint, with all that it holds."""

    save: Save
    number: int
    held: list[Held] = field(default_factory=list)


@dataclass
class Trouble:
    """Snapshots that are not as they should be; made where asked for."""

    leaked: str | None = None
    violated: str | None = None


def checkpoints_of(chance: random.Random, found: Simulated) -> list[Told]:
    """Each save, with the rollouts under way: at a boundary, with a snapshot that may be that of the save before."""
    told = [Told(save, number) for number, save in enumerate(found.saves, 1)]
    newest: dict[tuple[str, int], str] = {}
    for one in told:
        for life, tried in _under_way(found.lives, one.save.at):
            one.held.append(_held(chance, one, life, tried, newest))
    return told


def _under_way(lives: Sequence[Life], at: float) -> Iterator[tuple[Life, Try]]:
    for life in lives:
        for tried in life.tries:
            if tried.start < at < tried.end:
                yield life, tried


def _held(chance: random.Random, one: Told, life: Life, tried: Try, newest: dict[tuple[str, int], str]) -> Held:
    spent = min(one.save.at - tried.start, BUDGET_S)
    is_graded = len(tried.stages) > 3 and spent > sum(seconds for _stage, seconds in tried.stages[:3])
    held = Held(life, tried.attempt, "verify" if is_graded else "invoke_agent", spent + tried.spent_s)
    if chance.random() < 0.06:
        held.reason = chance.choice(_RESTARTS)
    elif not is_graded:
        key = (life.rollout_id, tried.attempt)
        if key not in newest or chance.random() < 0.6:
            newest[key] = f"snapshot-{chance.getrandbits(48):012x}"
        held.snapshot = newest[key]
    return held


def tell(
    chance: random.Random, told: Sequence[Told], began: float, provider: str, trouble: Trouble, *, end: float | None
) -> Iterator[Timed]:
    """All events; ``end`` = when every rollout was finished, so that nothing is kept any more."""
    sizes: dict[str, int] = {}
    users: defaultdict[str, set[str]] = defaultdict(set)
    alive: list[Told] = []
    for one in told:
        at = began + one.save.at
        yield from _saved(chance, one, at, provider, sizes, users)
        alive.append(one)
        keep = kept_of(alive)
        yield from _released([each for each in alive if each.save.checkpoint_id not in keep], at + 30)
        alive = [each for each in alive if each.save.checkpoint_id in keep]
        needed = {each.save.checkpoint_id for each in alive}
        spared = trouble.leaked
        for snapshot in [name for name, ids in users.items() if not ids & needed]:
            del users[snapshot]
            if spared == "":  # the first one that should go, and does not
                spared = trouble.leaked = snapshot
            else:
                yield at + 31, ev.SnapshotReleased(snapshot_id=snapshot, reason="no kept checkpoint needs it")
    if end is not None:
        yield from _released(alive, began + end, why="every rollout is finished")
        for snapshot in users:
            yield began + end, ev.SnapshotReleased(snapshot_id=snapshot, reason="no kept checkpoint needs it")
    elif trouble.violated == "" and users:
        trouble.violated = min(users)
        gone = ev.SnapshotReleased(snapshot_id=trouble.violated, reason="somebody has deleted it by hand")
        yield began + told[-1].save.at + 60, gone


def kept_of(alive: Sequence[Told]) -> frozenset[str]:
    return kept([Candidate(checkpoint_id=one.save.checkpoint_id, number=one.number) for one in alive], RETENTION)


def _saved(
    chance: random.Random,
    one: Told,
    at: float,
    provider: str,
    sizes: dict[str, int],
    users: defaultdict[str, set[str]],
) -> Iterator[Timed]:
    name, t = one.save.checkpoint_id, at
    for held in one.held:
        yield t, ev.CheckpointRollout(checkpoint_id=name, **_told_of(held))
        if held.snapshot is not None:
            of = {"checkpoint_id": name, "snapshot_id": held.snapshot, "rollout_id": held.life.rollout_id}
            yield t, ev.SnapshotReferenced(**of)
            users[held.snapshot].add(name)
            if held.snapshot not in sizes:
                sizes[held.snapshot] = int(chance.lognormvariate(17, 1.2))
                more = {"attempt": held.attempt, "provider": provider, "size_bytes": sizes[held.snapshot]}
                yield t, ev.SnapshotTaken.model_validate({**of, **more, "seconds": chance.uniform(0.01, 1.5)})
    phases = phases_of(one)
    for operation, seconds in phases.items():
        t += seconds
        yield t, ev.CheckpointPhase(checkpoint_id=name, operation=operation, seconds=seconds)
    yield t, ev.CheckpointSaved(checkpoint_id=name, **_counts(one), seconds=sum(phases.values()))


def _told_of(held: Held) -> Mapping[str, object]:
    saved = not held.reason
    return {
        "rollout_id": held.life.rollout_id,
        "attempt": held.attempt,
        "held": "saved" if saved else "restart",
        "boundary": held.boundary if saved else "",
        "tier": "",
        "reason": held.reason,
        "spent_s": held.spent_s if saved else 0.0,
        "steps": int(held.spent_s / 20) if saved else 0,
    }


def _counts(one: Told) -> Mapping[str, int]:
    held = [each for each in one.held if not each.reason]
    snapshots = sum(each.snapshot is not None for each in held)
    restarts = len(one.held) - len(held)
    return {
        "records": len(held) + snapshots,
        "restarts": restarts,
        "snapshots": snapshots,
        "size_bytes": 1400 * len(held),
    }


def phases_of(one: Told) -> dict[str, float]:
    """Seconds of each operation; together they are the time for which everything stood."""
    total = one.save.held_s
    return {"prepare": total * 0.7, "commit": total * 0.29, "resume": total * 0.01}


def _released(told: Sequence[Told], at: float, why: str = _WHY_RELEASED) -> Iterator[Timed]:
    for one in told:
        yield at, ev.CheckpointReleased(checkpoint_id=one.save.checkpoint_id, reason=why)
