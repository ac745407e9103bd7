"""Runs that save themselves: as a program that can be killed, and what its journals say afterwards."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from swe_sdk import aio
from swe_sdk.agents import ScriptedAgent
from swe_sdk.agents.scripted import Exec, Wait
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.contract import SandboxProvider

STEPS = 5
FIX = Exec(command="sed -i 's/41/42/' src.txt")


def steps(count: int = STEPS, wait_s: float = 0.2) -> ScriptedAgent:
    """Leaves a line in the repository at each step, takes its time between them, and solves the task at last."""
    actions: list[Exec | Wait] = []
    for number in range(1, count + 1):
        actions += [Exec(command=f"echo step {number} >> steps.txt", check=True), Wait(seconds=wait_s)]
    return ScriptedAgent(actions=(*actions, FIX))


def done_in(run: Run, name: str) -> list[str]:
    """The steps that the patch of a rollout shows."""
    return [line.removeprefix("+") for line in run.rollouts[name].patch.text.splitlines() if line.startswith("+step")]


def every_step(count: int = STEPS) -> list[str]:
    """Each of them, once."""
    return [f"step {number}" for number in range(1, count + 1)]


def events(path: Path) -> list[dict[str, Any]]:
    """What all journals of a run say, in order; a line that a kill has cut off is left out."""
    return [line["event"] for line in _lines(path)]


async def stopped_when_saved(
    path: Path,
    tasks: TaskSet | Task,
    agent: ScriptedAgent,
    provider: SandboxProvider,
    *,
    saves: int = 1,
    **options: object,
) -> None:
    """A run that is cancelled as soon as it has so many checkpoints that hold all of its rollouts at work."""
    start = partial(aio.run, tasks, agent, provider=provider, path=path, progress=False, **options)  # type: ignore[arg-type]
    await stopped_when(lambda: count_saved(path) >= saves, start)


async def stopped_when(is_so: Callable[[], bool], work: Callable[[], Awaitable[object]]) -> None:
    """Work that is cancelled as soon as something is so."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                while not is_so():
                    await anyio.sleep(0.02)
                scope.cancel()

            group.start_soon(stop)
            await work()
            group.cancel_scope.cancel()
    assert scope.cancelled_caught, "it was finished before it could be stopped"


def count_saved(path: Path) -> int:
    """Checkpoints at which something was within the agent's work."""
    kinds = events(path) if path.is_dir() else []
    found = {
        one["checkpoint_id"]
        for one in kinds
        if one["kind"] == "checkpoint_rollout" and one["held"] == "saved" and one["boundary"] == "invoke_agent"
    }
    complete = {one["checkpoint_id"] for one in kinds if one["kind"] == "checkpoint_saved"}
    return len(found & complete)


def all_saves(path: Path) -> int:
    """Checkpoints of which the journal knows."""
    return sum(one["kind"] == "checkpoint_saved" for one in events(path)) if path.is_dir() else 0


def surviving_steps(path: Path, name: str) -> list[int]:
    """The numbers of the steps that stand; see :func:`surviving`."""
    return [step["n"] for step in surviving(path, name)[0]]


def surviving(path: Path, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The steps of a rollout that stand: those of its last attempt, and of each one that it was restored from up to
    the checkpoint that cut it. And of each attempt: ``t``, when it began, and ``steps``, with which it was restored."""
    steps: list[dict[str, Any]] = []
    starts: list[dict[str, Any]] = []
    done_at: dict[str, int] = {}
    cuts: dict[tuple[int, float], int] = {}  # a checkpoint may hold what the one before has cut
    for line in _lines(path):
        event = line["event"]
        if event.get("rollout_id") != name:
            continue
        if event["kind"] == "checkpoint_rollout" and event["held"] == "saved":
            cut = (event["attempt"], event["spent_s"])
            done_at[event["checkpoint_id"]] = cuts.setdefault(cut, len(steps))
        elif event["kind"] == "attempt_started":
            restored_from = event.get("restored_from")
            steps = steps[: done_at[restored_from]] if restored_from else []
            starts.append({"t": line["t"], "steps": list(steps) if restored_from else None})
        elif event["kind"] == "step":
            steps.append(event)
    return steps, starts


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = [line for file in (path / "events").glob("*.jsonl") for line in _whole(file)]
    return sorted(lines, key=lambda line: line["t"])


def _whole(file: Path) -> Iterator[dict[str, Any]]:
    *whole, _rest = file.read_bytes().split(b"\n")
    yield from (json.loads(line) for line in whole)
