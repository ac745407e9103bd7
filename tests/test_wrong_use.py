"""What a newcomer gets wrong is a typed error that says what to do: names, paths and numbers where tasks belong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk.errors import DatasetError, InputError, PredictionsError, UnknownLog

TASKS = swe.load_tasks("mini")
TASK = TASKS["mini__fairsplit-1"]

WRONG: dict[str, Callable[[], object]] = {
    "the name of a task is graded": lambda: swe.grade("mini__fairsplit-1", ""),  # type: ignore[arg-type]
    "a path is graded": lambda: swe.grade(Path("task.jsonl"), ""),  # type: ignore[arg-type]
    "a path is the patch": lambda: swe.grade(TASK, Path("fix.patch")),  # type: ignore[arg-type]
    "a number is the patch": lambda: swe.grade(TASK, 12),  # type: ignore[arg-type]
    "names of tasks are graded": lambda: swe.grade_many([TASK.instance_id]),  # type: ignore[list-item]
    "one name of a task is checked": lambda: swe.validate("mini__fairsplit-1"),
    "a sandbox of a name": lambda: swe.Sandbox("mini__fairsplit-1"),  # type: ignore[arg-type]
    "a sandbox of a folder": lambda: swe.Sandbox(Path("/tmp")),  # type: ignore[arg-type]
    "a sandbox of many tasks": lambda: swe.Sandbox(TASKS),  # type: ignore[arg-type]
    "an environment of a name": lambda: swe.prepare("mini__fairsplit-1"),  # type: ignore[arg-type]
    "tasks are compared": lambda: swe.compare(TASKS, TASKS),  # type: ignore[arg-type]
    "nothing is compared": lambda: swe.compare("/nowhere", "/nowhere"),
}


@pytest.mark.parametrize("what", WRONG)
def test_it_is_named_and_says_what_to_give(what: str) -> None:
    with pytest.raises(InputError) as caught:
        WRONG[what]()
    assert caught.value.remedy
    assert len(str(caught.value)) < 700


def test_a_word_that_is_no_data_set_is_corrected() -> None:
    with pytest.raises(DatasetError, match="did you mean mini"):
        swe.grade_many("mnii", "gold")


def test_a_word_that_names_no_patches_is_corrected() -> None:
    with pytest.raises(PredictionsError, match="did you mean gold"):
        swe.grade_many(TASKS[:1], "golden")


def test_tasks_are_named_wherever_tasks_are_taken(tmp_path: Path) -> None:
    """Of one row, so that it takes no longer than it must."""
    (tmp_path / "rows").mkdir()
    row = {"instance_id": "a", "problem_statement": "", "directory": ".", "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": []}
    row |= {"test_command": "true", "log_parser": "unittest"}
    (tmp_path / "rows" / "tasks.jsonl").write_text(json.dumps(row))
    outcomes = swe.grade_many(tmp_path / "rows", "empty", results=tmp_path / "results", progress=False)
    assert [outcome.instance_id for outcome in outcomes] == ["a"]


def test_a_file_that_a_rollout_does_not_have_is_a_key_that_is_not_there() -> None:
    error = UnknownLog("tests.log", ["verify-1/test.log"])
    assert isinstance(error, KeyError)
    assert "did you mean verify-1/test.log?" in str(error)
