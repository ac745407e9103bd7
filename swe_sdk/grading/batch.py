"""Grade many patches at once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.errors import InputError
from swe_sdk.grading.classify import first_leaf
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.grading.progress import progress_bar
from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.grading.verify import grade
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import SandboxProvider

_log = logging.getLogger(__name__)


def default_limit() -> int:
    """How many grades run at once unless the caller says: a processor for each, but no more than 8."""
    return min(8, len(os.sched_getaffinity(0)))


def limiter_of(limit: int | None) -> anyio.CapacityLimiter:
    """Lets ``limit`` grades run at once; ``InputError`` for fewer than one."""
    if limit is not None and limit < 1:
        raise InputError(f"limit={limit}: nothing could run", remedy="give 1 or more")
    return anyio.CapacityLimiter(limit or default_limit())


@contextmanager
def says_where_it_stopped(path: Path | None, done: Sized, total: int) -> Iterator[None]:
    """Around the task group of a batch: where it ends early, log where the finished outcomes are.

    The first error of the group is raised by itself, for callers who never asked for a group.
    """
    try:
        yield
    except BaseException as error:
        if path is not None:
            _log.warning("stopped: %d of %d outcomes are finished, and kept in %s", len(done), total, path)
        if not isinstance(error, BaseExceptionGroup):
            raise
        raise first_leaf(error) from None


async def grade_many(
    tasks: Iterable[Task],
    patches: Mapping[str, Patch],
    *,
    limit: int | None = None,
    provider: SandboxProvider | str = "auto",
    results: OutcomeSink | None = None,
    progress: bool = True,
    on_outcome: Callable[[Outcome], None] | None = None,
    **options: Any,
) -> Outcomes:
    """Grade the patch of each task (by instance id), at most ``limit`` at a time; outcomes in the order of the tasks.

    No grade can stop the others. Each outcome is on disk in ``results`` before ``on_outcome`` hears of it (in the order
    they finish; an exception of its own ends the batch) and stays there where the batch is cancelled. Tasks without a
    patch are not graded; the Outcomes name them. ``options`` are those of :func:`~swe_sdk.grading.verify.grade`.

    Raises ``InputError`` for options that make no sense.
    """
    tasks = list(tasks)
    graded = [task for task in tasks if task.instance_id in patches]
    skipped = [task.instance_id for task in tasks if task.instance_id not in patches]
    done: dict[int, Outcome] = {}
    limiter = limiter_of(limit)

    async def one(index: int, task: Task) -> None:
        async with limiter:
            outcome = await grade(
                task,
                patches[task.instance_id],
                provider=provider,
                results=results,
                on_progress=lambda line: bar.say(f"{task.instance_id}: {line}"),
                **options,
            )
        done[index] = outcome
        bar.add(outcome)
        if on_outcome is not None:
            on_outcome(outcome)

    path = None if results is None else results.path
    with progress_bar(len(graded), "grade", enabled=progress) as bar, says_where_it_stopped(path, done, len(graded)):
        async with anyio.create_task_group() as group:
            for index, task in enumerate(graded):
                group.start_soon(one, index, task)
    return Outcomes((done[index] for index in range(len(graded))), path=path, skipped=skipped)
