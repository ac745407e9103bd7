"""The tasks that real harnesses are tried on."""

from __future__ import annotations

import json

import swe_sdk as swe
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from tests.shared import shared_dir

MINI = ("mini__calc-1", "mini__inifile-1", "mini__nameindex-1")
"""An ordinary one, one whose source has CRLF, and one whose source is Latin-1."""
SDIST = "pallets__flask-5014"


def mini_task(name: str = "mini__calc-1") -> Task:
    return swe.load_tasks("mini")[name]


def sdist_task() -> Task:
    """A real SWE-bench task, built from a source distribution."""
    lines = (shared_dir() / "datasets" / "swebench_sdist" / "tasks_py311.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    (task,) = swe.load_tasks([row for row in rows if row["instance_id"] == SDIST])
    return task


def gold(task: Task) -> Patch:
    assert task.grading.gold_patch is not None
    return task.grading.gold_patch


def wrong(task: Task) -> Patch:
    assert task.grading.wrong_patch is not None
    return task.grading.wrong_patch
