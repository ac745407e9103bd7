"""Runs with checkpoints on nodes of this machine: what they leave, and what they say of it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from swe_sdk import aio
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.run import Run
from tests.runs.checkpointed import count_saved, done_in, events, every_step, steps, stopped_when, surviving_steps

STEPS = 6
BUDGET_S = 60.0


async def stopped_with_checkpoints(
    path: Path, tasks: TaskSet, executor: object, *, saves: int = 2, **more: Any
) -> None:
    """A run that is cancelled once it has so many checkpoints with agents at work."""
    given = {"provider": "local", "progress": False, "checkpoint_every": 0.4, "budget": BUDGET_S, **more}
    start = partial(aio.run, tasks, steps(STEPS, 0.3), path=path, executor=executor, **given)  # type: ignore[arg-type]
    await stopped_when(lambda: count_saved(path) >= saves, start)


async def gone_on(path: Path, executor: object) -> Run:
    return await aio.resume(path, executor=executor, progress=False)  # type: ignore[arg-type]


def held_by(path: Path) -> dict[str, dict[str, Any]]:
    """The newest that any complete checkpoint holds of each rollout at work, as its records say."""
    found: dict[str, dict[str, Any]] = {}
    for complete in sorted((path / "checkpoints").glob("*/gym_checkpoint.json"), key=lambda file: file.stat().st_mtime):
        spent = {row["episode_id"]["rollout_id"]: row["elapsed_s"] for row in _rows(complete.parent, "environment")}
        for row in _rows(complete.parent, "resources"):
            name = row["session_id"]
            facts = {"rollout_id": name, "checkpoint": complete.parent.name, "spent_s": spent[name]}
            found[name] = {**row["state"], **facts}
    return found


def _rows(checkpoint: Path, kind: str) -> list[dict[str, Any]]:
    files = checkpoint.glob(f"gym/{kind}/*/records-*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def attempts(path: Path) -> dict[str, dict[str, Any]]:
    """How the newest attempts began, by rollout."""
    return {one["rollout_id"]: one for one in events(path) if one["kind"] == "attempt_started"}


def all_is_right(run: Run, path: Path) -> None:
    """Everything is finished; no step was lost, and none is done twice."""
    assert run.finished
    assert set(run.row.counts) == {"resolved"}
    for row in run.rollouts.rows():
        assert done_in(run, row.rollout_id) == every_step(STEPS), "each step stands once in the sandbox"
        assert surviving_steps(path, row.rollout_id) == list(range(1, 2 * STEPS + 2)), "and once in the journal"
    assert run.checkpoints.kept == [], "nobody goes on from a finished run"


def goes_on(run: Run, path: Path, held: dict[str, Any]) -> None:
    """A rollout went on from what a checkpoint held of it, with what was left of its budget."""
    assert attempts(path)[held["rollout_id"]]["restored_from"] == held["checkpoint"]
    row = run.rollouts[held["rollout_id"]].row
    assert row.spent_s + (row.remaining_s or 0) == pytest.approx(BUDGET_S, abs=0.05)
    assert row.spent_s >= held["spent_s"], "no second is spent twice"


def left_of_run(state: Path) -> list[str]:
    """Snapshots in a cache folder that belong to no environment."""
    environments = "".join(file.read_text() for file in (state / "environments").glob("*.json"))
    return [file.stem for file in (state / "snapshots").glob("*.json") if file.stem not in environments]
