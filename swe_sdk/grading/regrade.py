"""Grade stored patches once more, without any agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio

from swe_sdk.grading.batch import limiter_of, says_where_it_stopped
from swe_sdk.grading.progress import progress_bar
from swe_sdk.grading.regrades import Regrade, Regrades, Stored
from swe_sdk.grading.sink import OutcomeSink
from swe_sdk.grading.verify import grade
from swe_sdk.model.task import Task
from swe_sdk.sandbox.contract import SandboxProvider


async def regrade(
    stored: Iterable[Stored],
    tasks: Mapping[str, Task],
    *,
    skipped: Mapping[str, str] | None = None,
    limit: int | None = None,
    provider: SandboxProvider | str = "auto",
    results: OutcomeSink | None = None,
    progress: bool = True,
    on_regrade: Callable[[Regrade], None] | None = None,
    **options: Any,
) -> Regrades:
    """Grade each stored patch on the task of its id, at most ``limit`` at a time; the rest as for ``grade_many``.

    Equal patches of a task are graded once, and no outcome of before is taken for a new one. What has no task is
    skipped, and told with what was ``skipped`` before. ``options`` are those of
    :func:`~swe_sdk.grading.verify.grade`. Raises ``InputError`` for options that make no sense.
    """
    found, missing = _divided(stored, tasks)
    done: dict[int, Regrade] = {}
    limiter = limiter_of(limit)

    async def one(indices: list[int]) -> None:
        first = found[indices[0]]
        task = tasks[first.before.instance_id]
        async with limiter:
            outcome = await grade(task, first.patch, provider=provider, results=results, share=False, **options)
        bar.add(outcome)
        for index in indices:
            done[index] = Regrade(name=found[index].name, before=found[index].before, after=outcome)
            if on_regrade is not None:
                on_regrade(done[index])

    alike: dict[tuple[str, str], list[int]] = {}
    for index, each in enumerate(found):
        alike.setdefault((each.before.instance_id, each.patch.sha256), []).append(index)
    path = None if results is None else results.path
    with progress_bar(len(alike), "regrade", enabled=progress) as bar, says_where_it_stopped(path, done, len(found)):
        async with anyio.create_task_group() as group:
            for indices in alike.values():
                group.start_soon(one, indices)
    return Regrades((done[index] for index in range(len(found))), path=path, skipped={**(skipped or {}), **missing})


def _divided(stored: Iterable[Stored], tasks: Mapping[str, Task]) -> tuple[list[Stored], dict[str, str]]:
    found, missing = [], {}
    for each in stored:
        if each.before.instance_id in tasks:
            found.append(each)
        else:
            missing[each.name] = f"there is no task {each.before.instance_id!r}"
    return found, missing
