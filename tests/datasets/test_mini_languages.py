"""The bundled tasks in Rust, C and Go: their form, and their verdicts where this machine has the tools."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from swe_sdk.recipes.dataset import load_tasks
from tests.datasets.test_mini import EVERY_ROW, GIT_ENV, MINI, apply, touched, tree

FAMILY = "swe-bench-multilingual"
ROWS = {row["instance_id"]: row for row in EVERY_ROW if row["family"] == FAMILY}
MADE = ("target/", "build/")

each_task = pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))


def test_a_task_for_each_of_three_languages() -> None:
    assert {row["language"]: row["log_parser"] for row in ROWS.values()} == {
        "rust": "cargo_test",
        "c": "tap_strict",
        "go": "go_test",
    }


@each_task
def test_the_row_is_a_whole_task(row: dict[str, Any]) -> None:
    task = load_tasks("mini")[row["instance_id"]]
    name = row["directory"].removeprefix("repos/")
    assert (row["instance_id"], row["repo"], task.family) == (f"mini__{name}-1", f"mini/{name}", FAMILY)
    required = {*task.grading.fail_to_pass, *task.grading.pass_to_pass}
    assert task.grading.fail_to_pass
    assert len(required) == len(task.grading.fail_to_pass) + len(task.grading.pass_to_pass)
    fails = row["wrong_patch_fails"]
    assert fails["f2p"] or fails["p2p"]
    assert {*fails["f2p"], *fails["p2p"]} <= required
    assert row["problem_statement"].count("\n") > 3
    assert not any(name in row["problem_statement"] for name in task.grading.fail_to_pass)
    assert re.match(r"half fix: ", row["wrong_patch_note"])


@each_task
@pytest.mark.parametrize("model_patch", ["patch", "wrong_patch"])
def test_patches_apply_in_order(row: dict[str, Any], tmp_path: Path, model_patch: str) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(MINI / row["directory"], repo)
    subprocess.run(["git", "init", "--quiet"], cwd=repo, env=GIT_ENV, check=True)
    before = tree(repo)
    for name in (model_patch, "test_patch"):
        assert apply(repo, row[name].encode()).returncode == 0
        now = tree(repo)
        assert {path for path in now if now[path] != before.get(path)} == touched(row[name].encode())
        before = now
    assert not touched(row[model_patch].encode()) & touched(row["test_patch"].encode())
    assert row["patch"] != row["wrong_patch"]


@each_task
def test_the_repository_is_plain_files(row: dict[str, Any]) -> None:
    files = tree(MINI / row["directory"])
    assert "README.md" in files
    assert not [path for path in files if path.startswith(MADE)]


@each_task
def test_verdicts(row: dict[str, Any]) -> None:
    """What each task says of itself, in a box; without its tools the grade is masked, and says which one to get."""
    task = load_tasks("mini")[row["instance_id"]]
    missing = [tool for tool in row["tools"] if shutil.which(tool) is None]
    if missing:
        mask = swe.grade(task, task.grading.gold_patch).mask
        assert mask is not None
        assert (mask.stage, mask.kind) == ("environment", "missing_tool")
        assert missing[0] in mask.reason
        return
    gold, wrong = swe.grade(task, task.grading.gold_patch), swe.grade(task, task.grading.wrong_patch)
    assert gold.resolved, gold.reason
    assert not wrong.resolved
    assert wrong.tests is not None
    statuses = {**wrong.tests.fail_to_pass, **wrong.tests.pass_to_pass}
    failed = {name for name, status in statuses.items() if status != "PASSED"}
    assert failed == {*row["wrong_patch_fails"]["f2p"], *row["wrong_patch_fails"]["p2p"]}
