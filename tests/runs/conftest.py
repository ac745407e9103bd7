from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from tests.grading.tiny import make_task


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs and indexes of tests lie with the test."""
    monkeypatch.setenv("SWE_SDK_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("SWE_SDK_INDEX", str(tmp_path / "index"))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """The tiny task."""
    return make_task(tmp_path / "repo")


@pytest.fixture
def tasks(task: Task) -> TaskSet:
    """Three of it, by other names."""
    return TaskSet([task.model_copy(update={"instance_id": f"tiny__answer-{n}"}) for n in (1, 2, 3)], name="tiny")
