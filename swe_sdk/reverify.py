"""Stored runs and results, verified once more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from anyio import to_thread

from swe_sdk.errors import InputError
from swe_sdk.grading import regrade as stored_patches
from swe_sdk.grading.regrades import Regrade, Regrades, Stored
from swe_sdk.grading.settings import DEFAULT_DISK_MIB
from swe_sdk.measure import ResultsLike
from swe_sdk.model.outcome import Status
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.runs.given import TasksLike, given_tasks
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.layout import is_run
from swe_sdk.store.results import Results
from swe_sdk.store.stored import stored_in_results


async def regrade(
    run: Run | Path | str,
    tasks: TasksLike | None = None,
    *,
    only: Collection[Status] | None = None,
    limit: int | None = None,
    provider: SandboxProvider | str = "auto",
    policy: Policy | str = "default",
    tests_timeout_s: float = 1800.0,
    attempt_timeout_s: float | None = None,
    build_timeout_s: float = 1800.0,
    disk_mib: int | None = DEFAULT_DISK_MIB,
    retries: int = 1,
    results: ResultsLike = None,
    progress: bool = True,
    on_regrade: Callable[[Regrade], None] | None = None,
) -> Regrades:
    """Grade every patch of a run directory or of a results directory again, without any agent.

    The tasks are those that a run has kept; ``tasks`` names others in their place (the same ids by other rules, say),
    and is needed for a results directory, which keeps none. ``only`` takes those of some statuses, such as
    ``["masked"]``. The new outcomes go to ``results`` (default: a new directory); the old ones stay as they were.

    Returns both verdicts of each, ``regrades.changed`` those that differ. Raises ``InputError``.
    """
    opened = run if isinstance(run, Run) else Path(run).absolute()
    found, skipped = await to_thread.run_sync(_stored, opened)
    chosen = [each for each in found if only is None or each.before.status in only]
    return await stored_patches.regrade(
        chosen,
        _tasks_of(opened, tasks),
        skipped=skipped,
        limit=limit,
        provider=provider,
        results=results if isinstance(results, Results) else Results(results),
        progress=progress,
        on_regrade=on_regrade,
        policy=policy,
        tests_timeout_s=tests_timeout_s,
        attempt_timeout_s=attempt_timeout_s,
        build_timeout_s=build_timeout_s,
        disk_mib=disk_mib,
        retries=retries,
    )


def _stored(run: Run | Path) -> tuple[list[Stored], dict[str, str]]:
    if isinstance(run, Run):
        return _stored_in_run(run)
    if not is_run(run):
        return stored_in_results(run)
    with Run(run) as opened:
        return _stored_in_run(opened)


def _stored_in_run(run: Run) -> tuple[list[Stored], dict[str, str]]:
    found, skipped = [], {}
    for rollout in run.rollouts.values():
        outcome = rollout.outcome
        if outcome is None:
            skipped[rollout.id] = "it never came to a grade"
            continue
        try:
            patch = rollout.patch
        except InputError as error:
            skipped[rollout.id] = f"its patch cannot be read: {error.message}"
            continue
        if patch.sha256 != outcome.patch.sha256:
            skipped[rollout.id] = "the patch that lies there is not the one that was graded"
        else:
            found.append(Stored(rollout.id, patch, outcome))
    return found, skipped


def _tasks_of(run: Run | Path, tasks: TasksLike | None) -> Mapping[str, Task]:
    return {task.instance_id: task for task in (_kept_tasks(run) if tasks is None else given_tasks(tasks))}


def _kept_tasks(run: Run | Path) -> Iterable[Task]:
    if isinstance(run, Path) and not is_run(run):
        raise InputError(f"{run} keeps no tasks, only outcomes", remedy="name the tasks as well: regrade(run, tasks)")
    if isinstance(run, Run):
        return run.tasks
    with Run(run) as opened:
        return opened.tasks
