"""Which view belongs to which object; found by name, so that showing one object imports no other."""

from __future__ import annotations

from importlib import import_module

from swe_sdk.notebook.blocks import View
from swe_sdk.notebook.render_html import render_html
from swe_sdk.notebook.render_text import render_text

VIEWS = {
    "Budget": "budget:budget_view",
    "Checkpoint": "checkpoint:checkpoint_view",
    "Checkpoints": "checkpoints:checkpoints_view",
    "Checkup": "checkup:checkup_view",
    "Comparison": "comparison:comparison_view",
    "ExecResult": "exec_result:exec_result_view",
    "Health": "health:health_view",
    "Log": "log:log_view",
    "Mask": "mask:mask_view",
    "ModelCallRow": "turns:model_call_view",
    "Outcome": "outcome:outcome_view",
    "Outcomes": "outcomes:outcomes_view",
    "Patch": "patch:patch_view",
    "Regrade": "regrades:regrade_view",
    "Regrades": "regrades:regrades_view",
    "Rollout": "rollout:rollout_view",
    "Rollouts": "rollouts:rollouts_view",
    "Run": "run:run_view",
    "Sandbox": "sandbox:sandbox_view",
    "Snapshot": "sandbox:snapshot_view",
    "Snapshots": "snapshots:snapshots_view",
    "StepRow": "turns:step_view",
    "Task": "task:task_view",
    "TaskHealth": "health:task_health_view",
    "TaskSet": "taskset:taskset_view",
}
"""Module and function below ``swe_sdk.notebook.reprs``, by the name of the class."""


def view_of(shown: object) -> View:
    """The view of an object of this package, or of a subclass. Raises ``LookupError`` where it has none."""
    for kind in type(shown).__mro__:
        if kind.__name__ in VIEWS and kind.__module__.startswith("swe_sdk."):
            module, _, function = VIEWS[kind.__name__].partition(":")
            view: View = getattr(import_module(f"swe_sdk.notebook.reprs.{module}"), function)(shown)
            return view
    raise LookupError(f"{type(shown).__name__} has no view")


def html_of(shown: object) -> str:
    """An object as static HTML of at most 200 kB, in which nothing runs."""
    return render_html(view_of(shown))


def text_of(shown: object) -> str:
    """An object as at most 120 lines for a terminal."""
    return render_text(view_of(shown))
