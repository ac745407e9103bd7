"""Sandboxes, truthful grading and long rollouts for software-engineering agents.

Everything here blocks, and works in a notebook; ``swe_sdk.aio`` has the same names as coroutines. Names are imported
when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swe_sdk import agents, aio, errors, testing
    from swe_sdk._face import (
        compare,
        doctor,
        grade,
        grade_many,
        open_run,
        prepare,
        regrade,
        resume,
        run,
        validate,
        verify,
    )
    from swe_sdk._sandbox import Sandbox
    from swe_sdk.agents.gateway.endpoint import ModelEndpoint
    from swe_sdk.imports.importing import import_run
    from swe_sdk.model.budget import Budget
    from swe_sdk.model.environment import (
        DirectorySource,
        GitSource,
        ImageEnvironment,
        SdistSource,
        SourceEnvironment,
    )
    from swe_sdk.model.exec_result import ExecResult
    from swe_sdk.model.outcome import Mask, Outcome
    from swe_sdk.model.patch import Patch
    from swe_sdk.model.policy import DEFAULT_POLICY, Policy
    from swe_sdk.model.task import GradingSpec, Task
    from swe_sdk.recipes.dataset import load_tasks
    from swe_sdk.recipes.registry import register_recipe, unregister_recipe
    from swe_sdk.recipes.taskset import TaskSet
    from swe_sdk.runs.rollout import Rollout
    from swe_sdk.runs.run import Run
    from swe_sdk.sandbox.contract import Limits, Snapshot

__version__ = "0.1.0"

_HOMES = {
    "Budget": "model.budget",
    "DEFAULT_POLICY": "model.policy",
    "DirectorySource": "model.environment",
    "ExecResult": "model.exec_result",
    "GitSource": "model.environment",
    "GradingSpec": "model.task",
    "ImageEnvironment": "model.environment",
    "Limits": "sandbox.contract",
    "Mask": "model.outcome",
    "ModelEndpoint": "agents.gateway.endpoint",
    "Outcome": "model.outcome",
    "Patch": "model.patch",
    "Policy": "model.policy",
    "Rollout": "runs.rollout",
    "Run": "runs.run",
    "Sandbox": "_sandbox",
    "SdistSource": "model.environment",
    "Snapshot": "sandbox.contract",
    "SourceEnvironment": "model.environment",
    "Task": "model.task",
    "TaskSet": "recipes.taskset",
    "compare": "_face",
    "doctor": "_face",
    "grade": "_face",
    "grade_many": "_face",
    "import_run": "imports.importing",
    "load_tasks": "recipes.dataset",
    "open_run": "_face",
    "prepare": "_face",
    "register_recipe": "recipes.registry",
    "regrade": "_face",
    "resume": "_face",
    "run": "_face",
    "unregister_recipe": "recipes.registry",
    "validate": "_face",
    "verify": "_face",
}
_MODULES = ("agents", "aio", "errors", "testing")

__all__ = [
    "DEFAULT_POLICY",
    "Budget",
    "DirectorySource",
    "ExecResult",
    "GitSource",
    "GradingSpec",
    "ImageEnvironment",
    "Limits",
    "Mask",
    "ModelEndpoint",
    "Outcome",
    "Patch",
    "Policy",
    "Rollout",
    "Run",
    "Sandbox",
    "SdistSource",
    "Snapshot",
    "SourceEnvironment",
    "Task",
    "TaskSet",
    "agents",
    "aio",
    "compare",
    "doctor",
    "errors",
    "grade",
    "grade_many",
    "import_run",
    "load_tasks",
    "open_run",
    "prepare",
    "register_recipe",
    "regrade",
    "resume",
    "run",
    "testing",
    "unregister_recipe",
    "validate",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"swe_sdk.{name}")
    if name not in _HOMES:
        hint = import_module("swe_sdk.errors").did_you_mean(name, __all__)
        raise AttributeError(f"module 'swe_sdk' has no attribute {name!r} ({hint})")
    value = getattr(import_module(f"swe_sdk.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
