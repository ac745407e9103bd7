"""A task set is a sequence, a mapping, a table and a page."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
import sample_rows

from swe_sdk.errors import UnknownTask
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.recipes.taskset import TaskSet

ROWS = [sample_rows.CLASSIC, sample_rows.MODERN, sample_rows.SDIST]


@pytest.fixture
def tasks() -> TaskSet:
    return load_tasks(ROWS)


def test_it_is_a_sequence_and_a_mapping(tasks):
    assert len(tasks) == 3
    assert tasks.ids == ("pallets__flask-1", "pallets__flask-2", "pallets__flask-3")
    assert [task.instance_id for task in tasks] == list(tasks.ids)
    assert tasks["pallets__flask-2"] is tasks[1] is tasks[-2]
    assert "pallets__flask-2" in tasks
    assert tasks[1] in tasks
    assert "pallets__flask-9" not in tasks
    assert tasks.index(tasks[2]) == 2
    assert next(reversed(tasks)) is tasks[2]


def test_parts_are_task_sets(tasks):
    assert isinstance(tasks[:2], TaskSet)
    assert tasks[:2].ids == tasks.ids[:2]
    assert tasks[::-1].ids == tasks.ids[::-1]
    assert tasks.filter(lambda task: task.environment.kind == "source").ids == ("pallets__flask-3",)


def test_unknown_tasks_are_proposed(tasks):
    with pytest.raises(UnknownTask, match="did you mean pallets__flask"):
        tasks["pallets__flask-33"]
    with pytest.raises(IndexError):
        tasks[3]


def test_public_and_frame_keep_the_secrets(tasks):
    frame = tasks.to_frame()
    assert list(frame.index) == list(tasks.ids)
    assert frame.loc["pallets__flask-1", "difficulty"] == "15 min"
    assert "grading" not in frame.columns
    shown = str(tasks.public()) + frame.to_json() + repr(tasks) + tasks._repr_html_()
    assert not [secret for secret in sample_rows.SECRETS if secret in shown]
    assert list(TaskSet([]).to_frame().columns) == [name for name in frame.columns if name in TaskSet([]).to_frame()]


def test_it_shows_itself_shortly_and_escaped():
    evil = {**ROWS[0], "problem_statement": "<script>alert(1)</script>\n" + "more " * 100, "repo": "pallets/flask"}
    many = [{**evil, "instance_id": f"task-{number}"} for number in range(65)]
    tasks = load_tasks(many)
    html = tasks._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "and 15 more" in html
    assert repr(tasks) == "TaskSet(65 tasks: task-0, task-1, task-2, ...)"
    assert repr(tasks[:1]) == "TaskSet(1 task: task-0)"
    assert repr(TaskSet([], name="mine")) == "TaskSet('mine', 0 tasks: none)"


def test_warnings_say_what_will_not_work():
    unknown = {**ROWS[1], "log_parser": "parse_log_fortran"}
    empty = {**ROWS[0], "FAIL_TO_PASS": "[]"}
    tasks = load_tasks([unknown, empty, ROWS[2]])
    resolved, parser, files = tasks.warnings
    assert resolved == "1 of 3 tasks without a fail_to_pass test can never be resolved: pallets__flask-1"
    assert "log parser" in parser
    assert "pallets__flask-2" in parser
    assert "binary test files" in files
    assert tasks[2:].warnings == ()
    assert "can never be resolved" in tasks._repr_html_()


def test_it_can_be_pickled(tasks):
    assert list(pickle.loads(pickle.dumps(tasks))) == list(tasks)


def test_loading_imports_no_table_library():
    heavy = ("pandas", "numpy", "pyarrow", "datasets", "matplotlib", "swebench")
    code = "import sys; from swe_sdk.recipes.dataset import load_tasks; load_tasks('mini'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not [name for name in heavy if name in done.stdout.split()]
