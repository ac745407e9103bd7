"""Which tasks are compared, and which cannot be."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.rows import Unavailable
from benchmarks.shared import shared_datasets
from swe_sdk.model.environment import SourceEnvironment
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks

Row = dict[str, Any]
MOST_EVAL_S = 8.0
"""Of the tasks that are taken by themselves: with longer tests a comparison of graders is one of tests."""
COUNT = 12


@dataclass
class Selection:
    """``rows`` as the data set has them, by instance id; ``absent`` says why the others are left out."""

    file: Path
    rows: dict[str, Row]
    tasks: dict[str, Task]
    absent: dict[str, str] = field(default_factory=dict)

    def drop(self, name: str, why: str) -> None:
        """Leave a task out."""
        del self.rows[name], self.tasks[name]
        self.absent[name] = why

    @property
    def sources(self) -> list[str]:
        """Ids of the tasks whose images are built here."""
        return [name for name, task in self.tasks.items() if isinstance(task.environment, SourceEnvironment)]


def select(file: str | None, ids: Sequence[str]) -> Selection:
    """The tasks of ``file`` ("verified" is that of the shared data; None: quick ones of all repositories); of ``ids``.

    Raises ``Unavailable`` and ``InputError``.
    """
    path = _path(file)
    rows = {row["instance_id"]: row for row in map(json.loads, path.read_text("utf-8").splitlines())}
    wanted = list(ids) or (_quick(rows) if file is None else list(rows))
    tasks = load_tasks(path, instance_ids=wanted, unknown_fields="ignore")
    selection = Selection(path, {name: rows[name] for name in wanted}, {name: tasks[name] for name in wanted})
    for name in wanted:
        why = _why_not(rows[name], selection.tasks[name])
        if why:
            selection.drop(name, why)
    return selection


def _path(file: str | None) -> Path:
    if file is None:
        return shared_datasets() / "swebench_sdist" / "tasks_py311.jsonl"
    if file == "verified":
        return shared_datasets() / "rows" / "swe-bench" / "verified_v5.jsonl"
    if not Path(file).is_file():
        raise Unavailable(f"there is no file {file}")
    return Path(file)


def _quick(rows: dict[str, Row]) -> list[str]:
    """The repositories take turns, each with the task of the shortest tests that it has left."""
    queues: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows.values(), key=lambda row: float(row["eval_seconds"])):
        if row["eval_seconds"] <= MOST_EVAL_S:
            queues[row["repo"]].append(row["instance_id"])
    turns = [queue[turn] for turn in range(len(rows)) for queue in queues.values() if turn < len(queue)]
    return turns[:COUNT]


def _why_not(row: Row, task: Task) -> str:
    from swebench.harness.log_parsers import PARSER_REGISTRY

    if task.grading.parser not in PARSER_REGISTRY:
        return f"the harness has no parser {task.grading.parser}"
    if not isinstance(task.environment, SourceEnvironment) and row.get("eval_script") is None:
        return "the row has no eval_script, which the harness runs"
    return ""


def patch_of(row: Row, kind: str) -> str | None:
    """The patch that a row calls gold or wrong; the empty one."""
    if kind == "empty":
        return ""
    found: str | None = row.get({"gold": "patch", "wrong": "wrong_patch"}[kind])
    return found
