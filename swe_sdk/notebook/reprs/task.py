"""One problem. Of its private half only counts are shown."""

from __future__ import annotations

from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.notebook.blocks import Block, Facts, Fold, Pre, View, Word
from swe_sdk.notebook.reprs.environment import environment_facts
from swe_sdk.notebook.reprs.mask import as_json


def task_view(task: Task) -> View:
    """What an agent may see, and how much there is that it may not."""
    title = (Word(task.instance_id, "strong"), Word(f"  {task.family}, {task.repo}", "muted"))
    about = (("base", task.base_commit and Word(task.base_commit[:12], "code")), ("version", task.version))
    return View(
        title,
        (
            Facts((*about, ("created", task.created_at))),
            Facts(environment_facts(task.environment)),
            _text("problem statement", task.problem_statement, is_open=True),
            _text("hints", task.hints),
            _text("metadata", as_json(task.metadata) if task.metadata else ""),
            _private(task.grading),
        ),
    )


def _private(grading: GradingSpec) -> Facts:
    return Facts(
        (
            ("private: tests to fix", len(grading.fail_to_pass)),
            ("to keep", len(grading.pass_to_pass)),
            ("gold patch", grading.gold_patch is not None),
            ("wrong patch", grading.wrong_patch is not None),
        )
    )


def _text(name: str, text: str, *, is_open: bool = False) -> Block | None:
    return Fold((name,), (Pre(text, wrap=True, lines=40),), is_open) if text.strip() else None
