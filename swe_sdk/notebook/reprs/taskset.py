"""Many tasks."""

from __future__ import annotations

from collections import Counter

from swe_sdk.model.task import Task
from swe_sdk.notebook.amounts import clipped, many
from swe_sdk.notebook.blocks import SHOWN_ROWS, Cell, Facts, Note, Table, View, Word
from swe_sdk.notebook.palette import HEALTH
from swe_sdk.recipes.taskset import TaskSet

_HEAD = ("task", "family", "repository", "version", "problem")
_PROBLEM = 100
_SHOWN_FAMILIES = 8


def taskset_view(tasks: TaskSet) -> View:
    """What to know before using them, families, the first tasks."""
    families = Counter(task.family for task in tasks).most_common()
    told = ", ".join(f"{family} {count}" for family, count in families[:_SHOWN_FAMILIES])
    others = f" and {len(families) - _SHOWN_FAMILIES} more" if len(families) > _SHOWN_FAMILIES else ""
    notes = (Note(HEALTH["unhealthy"].named("", "⚠"), warning) for warning in tasks.warnings)
    title = (Word(tasks.name or "TaskSet", "strong"), f" {many(len(tasks), 'task')}")
    table = Table(_HEAD, [_row(task) for task in tasks[:SHOWN_ROWS]], len(tasks))
    return View(title, (Facts((("families", told + others),)), *notes, table))


def _row(task: Task) -> tuple[Cell, ...]:
    first_line = task.problem_statement.strip().partition("\n")[0]
    return (
        Word(task.instance_id, "code"),
        task.family,
        task.repo,
        task.version or "",
        clipped(first_line, _PROBLEM),
    )
