"""The bundled rows of the other families: what can be checked without running a task."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.recipes.dataset import load_tasks
from tests.datasets.test_mini import EVERY_ROW, GIT_ENV, MINI, apply, touched, tree

FAMILIES = {"swe-bench-ext", "nv-internal-1", "swe-rebench", "r2e-gym"}
ROWS = [row for row in EVERY_ROW if row["family"] in FAMILIES]

each_task = pytest.mark.parametrize("row", ROWS, ids=[row["instance_id"] for row in ROWS])


def test_every_family_has_a_row() -> None:
    assert {row["family"] for row in ROWS} == FAMILIES
    frameworks = {row["test_framework"] for row in ROWS if row["family"] == "swe-bench-ext"}
    assert frameworks == {"pytest", "tap", "ctest"}
    assert len({row["install_config"]["log_parser"] for row in ROWS if row["family"] == "swe-rebench"}) == 2


@each_task
def test_the_row_is_a_whole_task(row: dict[str, Any]) -> None:
    task = load_tasks("mini")[row["instance_id"]]
    name = row["directory"].removeprefix("repos/")
    assert (row["instance_id"], row["repo"]) == (f"mini__{name}-1", f"mini/{name}")
    assert task.grading.fail_to_pass
    assert not set(task.grading.fail_to_pass) & set(task.grading.pass_to_pass)
    assert row["env"] == {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
    assert all(re.match(r"[a-z]+==[\d.]+(; .+)?$", requirement) for requirement in row.get("pip", ()))
    assert row["problem_statement"].count("\n") > 3
    assert row["wrong_patch_note"].startswith("half fix: ")
    hidden = " ".join(task.grading.fail_to_pass)
    assert not any(word in row["problem_statement"] for word in re.findall(r"test_\w+", hidden))


@each_task
@pytest.mark.parametrize("model_patch", ["patch", "wrong_patch"])
def test_patches_apply_in_order(row: dict[str, Any], tmp_path: Path, model_patch: str) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(MINI / row["directory"], repo)
    subprocess.run(["git", "init", "--quiet"], cwd=repo, env=GIT_ENV, check=True)
    before = tree(repo)
    for name in (model_patch, "test_patch"):
        patch = row[name].encode()
        assert apply(repo, patch).returncode == 0
        now = tree(repo)
        assert {path for path in now if now[path] != before.get(path)} == touched(patch)
        before = now
    assert row["patch"] != row["wrong_patch"]
    assert not touched(row[model_patch].encode()) & touched(row["test_patch"].encode())


@each_task
def test_the_repository_is_plain_files(row: dict[str, Any]) -> None:
    files = tree(MINI / row["directory"])
    assert "README.md" in files
    assert not [path for path in files if path.endswith(".pyc") or "cache" in path or path.startswith("build/")]
