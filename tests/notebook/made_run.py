"""A run with a bit of everything, at fixed times, made by the store's own writer: for pictures and frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.store import events as ev
from swe_sdk.store.writer import RunWriter

START = 1_700_000_000.0
TOTAL_S = 1800.0


class Made(NamedTuple):
    """One rollout of the run, and what comes of it."""

    instance_id: str
    family: str
    status: str
    seconds: tuple[float, float, float, float, float]
    """Of each stage."""
    parked_s: float = 0.0
    mask: tuple[str, str] | None = None
    tries: int = 1


ROLLOUTS = (
    Made("django__django-11099", "swe-bench", "resolved", (4, 610, 3, 95, 0.1), parked_s=120),
    Made("django__django-12453", "swe-bench", "unresolved", (4, 1300, 2, 140, 0.1), parked_s=60),
    Made("sympy__sympy-20590", "swe-bench", "resolved", (6, 240, 2, 380, 0.1)),
    Made("scikit-learn__scikit-learn-14087", "swe-bench", "masked", (5, 420, 2, 30, 0.1), mask=("host_oom", "tests")),
    Made("pallets__flask-5014", "swe-bench", "unresolved", (3, 150, 1, 22, 0.1), tries=2),
    Made("rust-lang__cargo-9133", "multi-swe", "resolved", (12, 500, 2, 260, 0.1)),
    Made("tokio-rs__tokio-4384", "multi-swe", "masked", (11, 0, 0, 0, 0), mask=("sandbox_lost", "agent"), tries=3),
    Made("grpc__grpc-go-2996", "multi-swe", "unresolved", (9, 1795, 2, 75, 0.1)),
    Made("aiogram__aiogram-$1", "r2e-gym", "resolved", (2, 90, 1, 12, 0.1)),
    Made("cost__of-$5-and-$6", "r2e-gym", "masked", (2, 70, 1, 9, 0.1), mask=("verifier_unreachable", "verify")),
)
STAGES = ("seed", "invoke_agent", "close_agent", "verify", "return")
STATUS_COUNTS = {"resolved": 4, "unresolved": 3, "masked": 3}


def outcome_of(made: Made) -> Outcome:
    mask = None
    if made.mask is not None:
        kind, stage = made.mask
        mask = Mask(kind=kind, stage=stage, reason="made up", retryable=True)  # type: ignore[arg-type]
    return Outcome(
        instance_id=made.instance_id,
        family=made.family,
        status=made.status,  # type: ignore[arg-type]
        reward=1.0 if made.status == "resolved" else 0.0,
        mask=mask,
        tests=TestReport(fail_to_pass={"t::new": "PASSED"}, pass_to_pass={"t::old": "PASSED", "t::x": "FAILED"}),
        patch=PatchReport(exists=True, applied=True, rung="git-apply", sha256="ab" * 32),
        timings_s={"total": 12.5},
        provider="local",
    )


def write_run(run_dir: Path, rollouts: tuple[Made, ...] = ROLLOUTS, *, checkpoints: bool = True) -> Path:
    """Make the run; returns its directory."""
    with RunWriter(run_dir, sync=False) as writer:
        told = [(START, ev.RunStarted(name="made", rollouts=len(rollouts), agent="scripted", dataset="made up"))]
        for number, made in enumerate(rollouts):
            told += _rollout(made, START + 20.0 * number)
        if checkpoints:
            told += list(_checkpoints())
        for at, event in told:
            writer.append(event, at=at)
        writer.append(ev.RunEnded(reason="finished"), at=max(at for at, _ in told) + 1)
    return run_dir


def _rollout(made: Made, start: float) -> list[tuple[float, ev.Event]]:
    rollout = f"{made.instance_id}.0"
    told: list[tuple[float, ev.Event]] = [
        (
            START,
            ev.RolloutQueued(
                rollout_id=rollout, instance_id=made.instance_id, family=made.family, agent="scripted", provider="local"
            ),
        )
    ]
    clock = start
    for attempt in range(1, made.tries + 1):
        of: dict[str, Any] = {"rollout_id": rollout, "attempt": attempt}
        told.append((clock, ev.AttemptStarted(**of, provider="local")))
        if attempt < made.tries:
            told += [
                (clock, ev.StageStarted(**of, stage="seed")),
                (clock + 40, ev.AttemptMasked(**of, mask=Mask(kind="create_failed", stage="seed", reason="made up"))),
                (clock + 40, ev.AttemptEnded(**of, reason="create_failed", will_retry=True)),
            ]
            clock += 60
    for stage, seconds in zip(STAGES, made.seconds, strict=True):
        if not seconds:
            break
        told.append((clock, ev.StageStarted(**of, stage=stage)))
        clock += seconds + (made.parked_s if stage == "invoke_agent" else 0)
        told.append((clock, ev.StageEnded(**of, stage=stage, seconds=seconds)))
    budget = Budget(total_s=TOTAL_S, spent_s=min(TOTAL_S, sum(made.seconds[:3])), parked_s=made.parked_s)
    steps = [
        (start + 5 + n, ev.StepTaken(**of, n=n, step_kind="action", summary=f"step {n}", seconds=1.5)) for n in range(3)
    ]
    return [
        *told,
        *steps,
        (clock, ev.BudgetCharged(**of, budget=budget, queued_s=2.0)),
        (clock, ev.OutcomeReached(**of, outcome=outcome_of(made))),
        (clock, ev.AttemptEnded(**of, reason="done")),
        (clock, ev.RolloutEnded(**of, status=made.status, reward=1.0 if made.status == "resolved" else 0.0)),  # type: ignore[arg-type]
    ]


MIB = 1 << 20
SNAPSHOTS = {
    "snap-a": ("django__django-11099.0", 1, (1, 2, 3), 120 * MIB),
    "snap-b": ("django__django-12453.0", 1, (1,), 95 * MIB),
    "snap-c": ("sympy__sympy-20590.0", 2, (2, 3, 4), 40 * MIB),
    "snap-d": ("grpc__grpc-go-2996.0", 3, (3, 4), 310 * MIB),
    "snap-e": ("rust-lang__cargo-9133.0", 2, (2,), 77 * MIB),
    "snap-f": ("pallets__flask-5014.0", 4, (4,), 12 * MIB),
}
"""Of which rollout, taken under which checkpoint, which checkpoints need it, bytes."""
RELEASED = ("snap-b", "snap-f")
KEPT_CHECKPOINTS = (3, 4)
STATES = {
    "snap-a": "kept",
    "snap-b": "released",
    "snap-c": "kept",
    "snap-d": "kept",
    "snap-e": "leaked",
    "snap-f": "violated",
}


def checkpoint_id(number: int) -> str:
    return f"checkpoint-{number}-abcd"


def _checkpoints() -> Iterator[tuple[float, ev.Event]]:
    for number in (1, 2, 3, 4):
        at, name = START + 300.0 * number, checkpoint_id(number)
        for snapshot, (rollout, taken, needed, size) in SNAPSHOTS.items():
            if taken == number:
                yield (
                    at,
                    ev.SnapshotTaken(
                        checkpoint_id=name,
                        snapshot_id=snapshot,
                        rollout_id=rollout,
                        attempt=1,
                        provider="local",
                        size_bytes=size,
                        seconds=0.4,
                    ),
                )
            elif number in needed:
                yield at, ev.SnapshotReferenced(checkpoint_id=name, snapshot_id=snapshot, rollout_id=rollout)
        yield at + 2, ev.CheckpointSaved(checkpoint_id=name, path=name, records=5, snapshots=3, size_bytes=2048)
    for number in (1, 2):
        yield START + 1300, ev.CheckpointReleased(checkpoint_id=checkpoint_id(number), reason="older than keep_last")
    for snapshot in RELEASED:
        yield START + 1301, ev.SnapshotReleased(snapshot_id=snapshot)
