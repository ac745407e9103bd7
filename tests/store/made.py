"""Events, runs and whole contents of an index, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.store import events as ev
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import RolloutRow
from swe_sdk.store.writer import RunWriter

MASK = Mask(kind="timeout", stage="create", reason="no box in time", retryable=True, evidence={"waited_s": 3})


def outcome(status: str = "resolved", name: str = "a__b-1", **changes: Any) -> Outcome:
    fields: dict[str, Any] = {
        "instance_id": name,
        "family": "swe-bench",
        "status": status,
        "reward": 1.0 if status == "resolved" else 0.0,
        "mask": MASK if status == "masked" else None,
        "patch": PatchReport(exists=True, applied=True, rung="git-apply", sha256="ab" * 32),
        "tests": TestReport(fail_to_pass={"t::new": "PASSED"}, pass_to_pass={"t::old": "FAILED", "t::fine": "PASSED"}),
    }
    return Outcome(**{**fields, **changes})


def whole_rollout(rollout: str, status: str = "resolved", attempt: int = 1, steps: int = 2) -> list[ev.Event]:
    """All events of a rollout that was made in one attempt."""
    of: dict[str, Any] = {"rollout_id": rollout, "attempt": attempt}
    name = rollout.rpartition(".")[0]
    return [
        ev.RolloutQueued(
            rollout_id=rollout, instance_id=name, agent="scripted", family="swe-bench", tags={"shard": "1"}
        ),
        ev.AttemptStarted(**of, provider="local"),
        ev.StageStarted(**of, stage="seed"),
        ev.StageEnded(**of, stage="seed", seconds=0.5),
        *(ev.StepTaken(**of, n=n, step_kind="action", summary=f"step {n}", tokens_in=10) for n in range(steps)),
        ev.OutcomeReached(**of, outcome=outcome(status, name)),
        ev.AttemptEnded(**of, reason="done"),
        ev.RolloutEnded(**of, status=status, reward=1.0 if status == "resolved" else 0.0),
    ]


def write(run_dir: Path, *events: ev.Event) -> None:
    with RunWriter(run_dir, sync=False) as writer:
        for event in events:
            writer.append(event)


def all_rollouts(index: RunIndex) -> list[RolloutRow]:
    return list(index.rollouts(sort="rollout_id", limit=100_000).rows)


def contents(index: RunIndex) -> dict[str, Any]:
    """Everything that can be asked of an index, but for the numbers that are its own (``seq``)."""
    found: dict[str, Any] = {"runs": [run.model_dump(exclude={"alive"}) for run in index.runs()]}
    for row in all_rollouts(index):
        at = {"rollout_id": row.rollout_id, "run": row.run}
        found[f"{row.run}/{row.rollout_id}"] = {
            "row": row.model_dump(exclude={"seq"}),
            "attempts": index.attempts(**at),
            "stages": index.stages(**at),
            "verdicts": index.verdicts(**at),
            "budgets": index.budgets(**at),
            "steps": index.steps(**at, limit=100_000).rows,
            "model_calls": index.model_calls(**at, limit=100_000).rows,
            "outcome": index.outcome(**at),
            "artifacts": index.artifacts(**at),
        }
    found["masks"] = sorted(index.masks(limit=100_000).rows, key=str)
    found["tagged"] = index.count(RolloutFilter(tags={"shard": "1"}))
    for run in index.runs():
        found[f"{run.run}/checkpoints"] = index.checkpoints(run.run)
        found[f"{run.run}/phases"] = index.checkpoint_phases(run=run.run)
        found[f"{run.run}/snapshots"] = index.snapshots(run.run)
        found[f"{run.run}/config"] = index.config(run.run)
        found[f"{run.run}/artifacts"] = index.artifacts(run=run.run)
    return found
