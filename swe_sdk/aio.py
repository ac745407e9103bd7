"""The names of ``swe_sdk`` for code that runs its own event loop: what blocks there is awaited here.

``from swe_sdk import aio as swe`` is all that changes. What never waits for a sandbox (types, ``load_tasks``,
``register_recipe``, ``import_run``) is the same object in both. In a notebook the stop button reaches every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import swe_sdk
from swe_sdk import checkup, measure, reverify, side_by_side
from swe_sdk._aio_sandbox import Sandbox, prepare
from swe_sdk._wakeful import wakeful
from swe_sdk.runs import start
from swe_sdk.server import call

if TYPE_CHECKING:
    from swe_sdk import (
        DEFAULT_POLICY,
        Budget,
        DirectorySource,
        ExecResult,
        GitSource,
        GradingSpec,
        ImageEnvironment,
        Limits,
        Mask,
        ModelEndpoint,
        Outcome,
        Patch,
        Policy,
        Rollout,
        Run,
        SdistSource,
        Snapshot,
        SourceEnvironment,
        Task,
        TaskSet,
        agents,
        errors,
        import_run,
        load_tasks,
        register_recipe,
        testing,
        unregister_recipe,
    )

compare = wakeful(side_by_side.compare)
doctor = wakeful(checkup.doctor)
grade = wakeful(measure.grade)
grade_many = wakeful(measure.grade_many)
open_run = wakeful(start.open_run)
regrade = wakeful(reverify.regrade)
resume = wakeful(start.resume)
run = wakeful(start.run)
validate = wakeful(measure.validate)
verify = wakeful(call.verify)

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
    if name not in __all__:
        raise AttributeError(f"module 'swe_sdk.aio' has no attribute {name!r}")
    return getattr(swe_sdk, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
