"""The form of the bundled dataset: what can be checked without running a task."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MINI = ROOT / "datasets" / "mini"
EVERY_ROW: list[dict[str, Any]] = [
    json.loads(line) for line in (MINI / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
]
ROWS = [row for row in EVERY_ROW if row["family"] == "swe-bench"]
"""The others have fields of their own families; see ``test_mini_families.py``."""
BY_ID: dict[str, dict[str, Any]] = {row["instance_id"]: row for row in ROWS}
PATCHES = ("patch", "test_patch", "wrong_patch")
FIELDS = {
    *("instance_id", "family", "repo", "version", "base_commit", "created_at", "directory", "python", "pip", "tools"),
    *("install", "env", "test_command", "log_parser", "eval_type", "problem_statement", "hints_text"),
    *("wrong_patch_note", "wrong_patch_fails", "FAIL_TO_PASS", "PASS_TO_PASS"),
}
GIT_ENV = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}

each_task = pytest.mark.parametrize("row", ROWS, ids=list(BY_ID))


def patch_bytes(row: dict[str, Any], name: str) -> bytes:
    encoded = row.get(f"{name}_base64")
    return base64.b64decode(encoded, validate=True) if encoded is not None else str(row[name]).encode()


def touched(patch: bytes) -> set[str]:
    headers = re.findall(rb"^diff --git a/(\S+) b/(\S+)$", patch, re.MULTILINE)
    assert headers
    assert all(old == new for old, new in headers)
    return {new.decode() for _, new in headers}


def created(patch: bytes) -> set[str]:
    return {name.decode() for name in re.findall(rb"^--- /dev/null\n\+\+\+ b/(\S+)$", patch, re.MULTILINE)}


def is_test_file(path: str) -> bool:
    return path.startswith(("tests/", "test/"))


def tree(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in files
        if ".git" not in path.relative_to(root).parts
    }


def apply(repo: Path, patch: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "apply", *options], cwd=repo, env=GIT_ENV, input=patch, capture_output=True)


@pytest.fixture
def checkout(row: dict[str, Any], tmp_path: Path) -> Path:
    """A fresh git repository with the files of the task."""
    repo = tmp_path / "repo"
    shutil.copytree(MINI / row["directory"], repo)
    subprocess.run(["git", "init", "--quiet"], cwd=repo, env=GIT_ENV, check=True)
    return repo


def test_ids_are_unique_and_every_repository_has_a_task() -> None:
    assert len({row["instance_id"] for row in EVERY_ROW}) == len(EVERY_ROW) > len(BY_ID) == len(ROWS) >= 10
    assert {row["directory"] for row in EVERY_ROW} == {f"repos/{path.name}" for path in (MINI / "repos").iterdir()}


@each_task
def test_fields(row: dict[str, Any]) -> None:
    patches = {name if name in row else f"{name}_base64" for name in PATCHES}
    assert set(row) == FIELDS | patches
    name = row["directory"].removeprefix("repos/")
    assert re.fullmatch(rf"mini__{name}-\d+", row["instance_id"])
    assert (row["family"], row["repo"], row["eval_type"]) == ("swe-bench", f"mini/{name}", "pass_and_fail")
    assert row["log_parser"] in {"parse_log_pytest", "parse_log_pytest_v2", "unittest", "node_test"}
    assert row["install"] is None
    assert row["env"] == {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
    assert (row["python"] is None) == (row["tools"] == ["node"]) == (row["log_parser"] == "node_test")
    assert bool(row["pip"]) == row["log_parser"].startswith("parse_log_pytest")
    assert all(re.match(r"[a-z]+==[\d.]+(; .+)?$", requirement) for requirement in row["pip"])
    assert row["problem_statement"].count("\n") > 5
    assert row["wrong_patch_note"]


@each_task
def test_lists_of_tests(row: dict[str, Any]) -> None:
    to_pass, to_keep = row["FAIL_TO_PASS"], row["PASS_TO_PASS"]
    required = to_pass + to_keep
    assert to_pass
    assert to_keep
    assert len(set(required)) == len(required)
    fails = row["wrong_patch_fails"]
    assert set(fails) == {"f2p", "p2p"}
    assert set(fails["f2p"]) <= set(to_pass)
    assert set(fails["p2p"]) <= set(to_keep)
    assert fails["f2p"] or fails["p2p"]
    assert not any(name in row["problem_statement"] for name in re.findall(r"test_\w+", " ".join(to_pass)))
    if row["log_parser"] == "parse_log_pytest":  # which ends an id at the first white space
        assert not any(re.search(r"\s", test) for test in required)
    if row["log_parser"] == "parse_log_pytest_v2":  # which folds white space and takes " - " for the end of an id
        assert not any(re.search(r"\s\s| - ", test) for test in required)


@each_task
def test_patches_touch_their_own_side_only(row: dict[str, Any]) -> None:
    gold, test, wrong = (patch_bytes(row, name) for name in PATCHES)
    assert gold != wrong
    assert all(patch.startswith(b"diff --git a/") and patch.endswith(b"\n") for patch in (gold, test, wrong))
    assert all(is_test_file(path) for path in touched(test))
    assert not any(is_test_file(path) for path in touched(gold) | touched(wrong))


@each_task
@pytest.mark.parametrize("model_patch", ["patch", "wrong_patch"])
def test_patches_apply_in_order(row: dict[str, Any], checkout: Path, model_patch: str) -> None:
    before = tree(checkout)
    for patch in (patch_bytes(row, model_patch), patch_bytes(row, "test_patch")):
        checked = apply(checkout, patch, "--check")
        assert checked.returncode == 0, checked.stderr.decode()
        assert apply(checkout, patch).returncode == 0
        now = tree(checkout)
        assert {path for path in now if now[path] != before.get(path)} == touched(patch)
        assert set(now) - set(before) == created(patch)
        before = now


@each_task
def test_test_command_runs_files_that_exist(row: dict[str, Any], checkout: Path) -> None:
    assert apply(checkout, patch_bytes(row, "test_patch")).returncode == 0
    words = row["test_command"].split()
    files = [word for word in words if word.startswith(("tests/", "test/"))]
    files += [word.replace(".", "/") + ".py" for word in words if word.startswith("tests.")]
    assert files
    assert all((checkout / path).is_file() for path in files)
    code = {path for path in touched(patch_bytes(row, "test_patch")) if path.endswith((".py", ".js"))}
    assert code <= set(files)


@each_task
def test_repository_is_plain_files(row: dict[str, Any]) -> None:
    files = tree(MINI / row["directory"])
    assert {"README.md"} <= set(files)
    assert any(is_test_file(path) for path in files)
    leftovers = [path for path in files if path.endswith(".pyc") or "cache__" in path or "_cache/" in path]
    assert not leftovers, "somebody ran a task in place; remove these"
    assert not (MINI / row["directory"] / ".git").exists()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_git_ignores_nothing_of_it() -> None:
    names = "\0".join(str(path.relative_to(ROOT)) for path in MINI.rglob("*") if path.is_file())
    command = ["git", "check-ignore", "--no-index", "--stdin", "-z"]
    answer = subprocess.run(command, cwd=ROOT, env=GIT_ENV, input=names.encode(), capture_output=True)
    assert answer.stdout == b""


def test_runners() -> None:
    runners = [row["log_parser"] for row in ROWS]
    assert runners.count("unittest") >= 2
    assert runners.count("node_test") >= 1
    assert "parse_log_pytest" in runners


def test_crlf_file_stays_crlf(tmp_path: Path) -> None:
    row = BY_ID["mini__inifile-1"]
    shutil.copytree(MINI / row["directory"], tmp_path / "repo")
    gold = patch_bytes(row, "patch")
    assert apply(tmp_path / "repo", gold.replace(b"\r\n", b"\n"), "--check").returncode != 0
    assert apply(tmp_path / "repo", gold).returncode == 0
    source = (tmp_path / "repo/inifile/reader.py").read_bytes()
    assert source.count(b"\n") == source.count(b"\r\n") > 50


def test_latin_1_patch_is_carried_as_bytes(tmp_path: Path) -> None:
    row = BY_ID["mini__nameindex-1"]
    shutil.copytree(MINI / row["directory"], tmp_path / "repo")
    gold = patch_bytes(row, "patch")
    with pytest.raises(UnicodeDecodeError):
        gold.decode()
    assert apply(tmp_path / "repo", gold.decode(errors="replace").encode(), "--check").returncode != 0
    assert apply(tmp_path / "repo", gold).returncode == 0
    assert "å" in (tmp_path / "repo/nameindex/folding.py").read_text(encoding="latin-1")


def test_kinds_of_patches() -> None:
    gold = {key: patch_bytes(row, "patch") for key, row in BY_ID.items()}
    test = {key: patch_bytes(row, "test_patch") for key, row in BY_ID.items()}
    assert created(gold["mini__tinytpl-1"]) == {"tinytpl/markup.py"}
    assert created(test["mini__depsolve-1"]) == touched(test["mini__depsolve-1"]) == {"tests/test_deep_graphs.py"}
    assert created(test["mini__pathglob-1"]) == {"tests/data/tree.txt"}
    assert any(re.search(r"\[.*[\[ ].*\]", name) for name in BY_ID["mini__semrange-1"]["FAIL_TO_PASS"])
    assert BY_ID["mini__pathglob-1"]["wrong_patch_fails"]["f2p"] == []
    fixtures = (MINI / "repos/ttlcache/tests/conftest.py").read_text(encoding="utf-8")
    assert "def make_cache" in fixtures
    assert b"make_cache" in test["mini__ttlcache-1"]
    assert not any("conftest" in path for path in touched(test["mini__ttlcache-1"]))
