"""The awaitable face of grading: results directories by path, predictions by name, one place for the defaults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from swe_sdk.executors.grades import grade_many_on
from swe_sdk.executors.registry import ExecutorLike, is_local
from swe_sdk.grading import batch, verify
from swe_sdk.grading import validate as control_runs
from swe_sdk.grading.health import Health
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.grading.settings import DEFAULT_DISK_MIB
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.progress import shown_steps
from swe_sdk.recipes.predictions import Predictions, load_predictions
from swe_sdk.runs.given import TasksLike, given_tasks, require_task
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.results import Results, process_results

ResultsLike: TypeAlias = Results | Path | str | None
"""A results directory, or its path; None = a new one below ``paths.results_dir()``."""


async def grade(
    task: Task,
    patch: Patch | bytes | str | None,
    *,
    provider: SandboxProvider | str = "auto",
    policy: Policy | str = "default",
    tests_timeout_s: float = 1800.0,
    attempt_timeout_s: float | None = None,
    build_timeout_s: float = 1800.0,
    disk_mib: int | None = DEFAULT_DISK_MIB,
    retries: int = 1,
    results: ResultsLike = None,
    share: bool = True,
    reuse: bool = False,
    on_progress: Callable[[str], None] | None = None,
) -> Outcome:
    """What ``patch`` is worth on ``task``, measured in a fresh sandbox and on disk before this returns.

    Text is a diff, whatever it says; the words "gold", "empty" and "wrong" are for ``grade_many``.

    Whatever the submission does is in the Outcome, never an exception. So is infrastructure trouble: it becomes a mask
    as the ``policy`` says ("default", "nemo_gym" or a Policy), and an attempt whose mask is worth it is repeated up to
    ``retries`` times, each in a fresh sandbox.

    ``tests_timeout_s`` is for the tests alone, ``attempt_timeout_s`` (default: ten minutes more) for a whole attempt,
    ``build_timeout_s`` for an environment that must be built first; ``on_progress`` hears of its steps, which without
    it are shown where somebody looks. ``disk_mib`` bounds all that the graded programs write: going beyond is their own
    failure. Without ``results``, all single grades of this process share one directory; ``outcome.artifacts`` has the
    paths of log, patch and record. Equal grades at the same time share one execution (``share``); ``reuse=True`` takes
    an earlier outcome of the same content key, unless it was masked.

    Raises ``InputError`` for arguments that make no sense.
    """
    require_task(task)
    with shown_steps(on_progress, of="grade") as say:
        return await verify.grade(
            task,
            patch,
            provider=provider,
            policy=policy,
            tests_timeout_s=tests_timeout_s,
            attempt_timeout_s=attempt_timeout_s,
            build_timeout_s=build_timeout_s,
            disk_mib=disk_mib,
            retries=retries,
            results=process_results() if results is None else _opened(results),
            share=share,
            reuse=reuse,
            on_progress=say,
        )


async def grade_many(
    tasks: TasksLike,
    predictions: Predictions = "gold",
    *,
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
    on_outcome: Callable[[Outcome], None] | None = None,
    executor: ExecutorLike = None,
) -> Outcomes:
    """Grade a patch for each task, ``limit`` at a time (default: one a processor, at most 8).

    ``tasks`` are tasks, one task, or what ``load_tasks`` takes, such as "mini".
    ``predictions`` is "gold", "empty" or "wrong" (the tasks' own patches), a path to a predictions file, or a mapping
    from instance id to patch; tasks without one are not graded and named in ``outcomes.skipped``. Never raises for one
    item. Each outcome is on disk, in ``outcomes.path``, before ``on_outcome`` hears of it.

    ``executor`` is where the work is done: "ray", "slurm", or an executor of ``swe_sdk.executors``; None = in this
    process. ``limit`` is then for each node. Raises ``InputError``, and ``PrerequisiteError`` where an engine is not
    there.
    """
    chosen = list(given_tasks(tasks))
    grade_all = batch.grade_many if is_local(executor) else partial(grade_many_on, executor)
    return await grade_all(
        chosen,
        load_predictions(predictions, chosen),
        limit=limit,
        provider=provider,
        results=_opened(results),
        progress=progress,
        on_outcome=on_outcome,
        policy=policy,
        tests_timeout_s=tests_timeout_s,
        attempt_timeout_s=attempt_timeout_s,
        build_timeout_s=build_timeout_s,
        disk_mib=disk_mib,
        retries=retries,
    )


async def validate(
    tasks: TasksLike,
    *,
    n: int = 3,
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
) -> Health:
    """Check tasks by patches whose worth is known: gold must resolve ``n`` of ``n`` times, empty and wrong never.

    Tests whose status differs between equal runs are named as flaky; a masked run makes a task's health ``unknown``.
    Raises ``InputError``.
    """
    return await control_runs.validate(
        list(given_tasks(tasks)),
        n=n,
        limit=limit,
        provider=provider,
        results=_opened(results),
        progress=progress,
        policy=policy,
        tests_timeout_s=tests_timeout_s,
        attempt_timeout_s=attempt_timeout_s,
        build_timeout_s=build_timeout_s,
        disk_mib=disk_mib,
        retries=retries,
    )


def _opened(results: ResultsLike) -> Results:
    return results if isinstance(results, Results) else Results(results)
