"""Check tasks by patches whose worth is known: gold resolves every time, empty and wrong never do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio

from swe_sdk.errors import InputError
from swe_sdk.grading.batch import limiter_of, says_where_it_stopped
from swe_sdk.grading.footprint import footprints, named
from swe_sdk.grading.health import Health, Kind, health_of
from swe_sdk.grading.progress import progress_bar
from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.grading.verify import grade
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import SandboxProvider


async def validate(
    tasks: Iterable[Task],
    *,
    n: int = 3,
    limit: int | None = None,
    provider: SandboxProvider | str = "auto",
    results: OutcomeSink | None = None,
    progress: bool = True,
    **options: Any,
) -> Health:
    """The health of each task: ``n`` runs of its gold patch, one of an empty and, if it has one, of its wrong patch.

    Every run is an execution of its own; at most ``limit`` at a time. Whatever happens to one task is in its health.
    ``options`` are those of :func:`~swe_sdk.grading.verify.grade`. Raises ``InputError`` for options that make no
    sense.
    """
    if n < 1:
        raise InputError(f"n={n}: a task needs at least one gold run")
    tasks = list(tasks)
    plans = [_plan(task, n) for task in tasks]
    done: list[dict[Kind, list[Outcome]]] = [{} for _ in tasks]
    finished: list[Outcome] = []
    limiter = limiter_of(limit)

    async def one(index: int, kind: Kind, patch: Patch) -> None:
        async with limiter:
            outcome = await grade(tasks[index], patch, provider=provider, results=results, share=False, **options)
        done[index].setdefault(kind, []).append(outcome)
        finished.append(outcome)
        bar.add(outcome)

    total, path = sum(map(len, plans)), None if results is None else results.path
    with progress_bar(total, "validate", enabled=progress) as bar, says_where_it_stopped(path, finished, total):
        async with anyio.create_task_group() as group:
            for index, plan in enumerate(plans):
                for kind, patch in plan:
                    group.start_soon(one, index, kind, patch)
    measured = [task.environment for task, runs in zip(tasks, done, strict=True) if _any_measured(runs)]
    disk = await footprints(measured, provider, limiter)
    rows = zip(tasks, done, strict=True)
    health = [health_of(task.instance_id, runs, disk.get(named(task.environment))) for task, runs in rows]
    return Health(health, path=path)


def _any_measured(runs: dict[Kind, list[Outcome]]) -> bool:
    return any(not outcome.masked for outcomes in runs.values() for outcome in outcomes)


def _plan(task: Task, n: int) -> list[tuple[Kind, Patch]]:
    """The control runs of one task."""
    plan: list[tuple[Kind, Patch]] = [("empty", EMPTY_PATCH)]
    if task.grading.gold_patch is not None:
        plan += [("gold", task.grading.gold_patch)] * n
    if task.grading.wrong_patch is not None:
        plan.append(("wrong", task.grading.wrong_patch))
    return plan
