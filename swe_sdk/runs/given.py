"""What callers hand over, looked at before it is used, so that the error names the argument and says what it wants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.config.model import ModelConfig
from swe_sdk.errors import InputError
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.sandbox.arguments import PROVIDER

TasksLike: TypeAlias = Iterable[Task] | Task | Path | str
"""Tasks, one task, or where they can be loaded from: a bundled data set's name, a file, a folder."""

_TASKS_REMEDY = "give tasks, one task, or where to load them from; swe.load_tasks makes tasks"
_AGENT = ("name", "version", "tier", "needs", "run")


def require_given(*, agent: object, provider: object, policy: object = None, model: object = None) -> None:
    """``InputError`` for an argument that is no such thing; None and names pass."""
    _require("agent", agent, _AGENT, "give a name, such as 'gold', or an agent, such as swe.agents.MiniSweAgent()")
    _require("provider", provider, PROVIDER, "give a name, such as 'local', or a provider")
    if not isinstance(policy, Policy | str | None):
        raise InputError(f"policy={policy!r} is no policy", remedy="give a name, such as 'default', or a Policy")
    if not isinstance(model, ModelEndpoint | ModelConfig | None):
        raise InputError(f"model={model!r} is no model", remedy="give swe.ModelEndpoint(base_url=..., model=...)")


def given_tasks(tasks: TasksLike) -> TaskSet:
    """Tasks in whatever form they come; ``InputError`` where they are none."""
    if isinstance(tasks, str | Path):
        return load_tasks(tasks)
    if isinstance(tasks, TaskSet):
        return tasks
    return TaskSet([tasks] if isinstance(tasks, Task) else _listed(tasks))


def require_task(task: object) -> None:
    """``InputError`` for what is no task, such as the name of one."""
    if not isinstance(task, Task):
        remedy = "give one of swe.load_tasks(...), such as swe.load_tasks('mini')['mini__calc-1']"
        raise InputError(f"{task!r:.200} is no task", remedy=remedy)


def _listed(tasks: object) -> list[Task]:
    if isinstance(tasks, bytes | Mapping) or not isinstance(tasks, Iterable):
        raise InputError(f"tasks={tasks!r:.200} are no tasks", remedy=_TASKS_REMEDY)
    listed: list[Any] = list(tasks)
    for each in listed:
        if not isinstance(each, Task):
            raise InputError(f"{each!r:.200} is no task", remedy=_TASKS_REMEDY)
    return listed


def _require(what: str, value: object, wanted: tuple[str, ...], remedy: str) -> None:
    if isinstance(value, type):
        raise InputError(f"{what}={value.__name__} is a class", remedy=f"make one: {what}={value.__name__}(...)")
    missing = [name for name in wanted if not hasattr(value, name)]
    if missing and not isinstance(value, str | None):
        raise InputError(f"{what}={value!r:.200} is none: it has no {missing[0]}", remedy=remedy)
