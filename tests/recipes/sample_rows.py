"""A small row of each layout of the swe-bench family, and what must stay hidden in all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from swe_sdk.model.task import Task
from swe_sdk.recipes.swe_bench import SweBenchRecipe

TEST_PATCH = """\
diff --git a/tests/test_hidden.py b/tests/test_hidden.py
--- a/tests/test_hidden.py
+++ b/tests/test_hidden.py
@@ -1 +1 @@
-assert True
+assert secret_of_the_tests()
"""
GOLD = """\
diff --git a/pkg/a.py b/pkg/a.py
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1 +1 @@
-x = 1
+x = secret_of_the_fix()
"""
WRONG = GOLD.replace("secret_of_the_fix", "secret_of_the_mistake")
SCRIPT = f"""\
#!/bin/bash
set -uxo pipefail
cd /testbed
export MODE=strict
git status
git show
git -c core.fileMode=false diff abc1234
python -m pip install -e .
git checkout abc1234 tests/test_hidden.py
git apply -v - <<'EOF_1'
{TEST_PATCH}
EOF_1
: '>>>>> Start Test Output'
pytest -rA tests/test_hidden.py
: '>>>>> End Test Output'
git checkout abc1234 tests/test_hidden.py
"""

_COMMON: dict[str, Any] = {
    "repo": "pallets/flask",
    "base_commit": "abc1234",
    "version": "2.3",
    "created_at": "2023-01-01T00:00:00Z",
    "problem_statement": "It does not work.",
    "hints_text": "Look closer.",
    "patch": GOLD,
    "test_patch": TEST_PATCH,
    "FAIL_TO_PASS": json.dumps(["tests/test_hidden.py::test_secret_id"]),
    "PASS_TO_PASS": ["tests/test_hidden.py::test_other_secret_id"],
}
_SOURCE = {
    **_COMMON,
    "python": "3.11",
    "pip": ["wheel==0.41.2"],
    "install": "python -m pip install -e .",
    "env": {"TZ": "UTC"},
    "test_command": "pytest -rA tests/test_hidden.py",
    "log_parser": "parse_log_pytest",
    "wrong_patch": WRONG,
}

CLASSIC = {**_COMMON, "instance_id": "pallets__flask-1", "difficulty": "15 min", "environment_setup_commit": "def"}
MODERN = {
    **_COMMON,
    "instance_id": "pallets__flask-2",
    "eval_script": SCRIPT,
    "log_parser": "parse_log_pytest",
    "eval_type": "pass_and_fail",
    "image": "swebench/sweb.eval.x86_64.pallets_1776_flask-2:latest",
    "image_assets": json.dumps(
        {
            "problem_statement": ["https://example.org/shown.png"],
            "test_patch": [{"path": "tests/secret_picture.png", "url": "https://example.org/secret_picture.png"}],
        }
    ),
}
SDIST = {
    **_SOURCE,
    "instance_id": "pallets__flask-3",
    "sdist": {"name": "flask", "version": "2.3.0", "filename": "Flask-2.3.0.tar.gz", "sha256": "a" * 64},
    "notes": "test_secret_id was dropped",
    "eval_seconds": 1.5,
}
DIRECTORY = {**_SOURCE, "instance_id": "mini__flask-4", "directory": "repos/flask", "tools": ["node"]}
GIT = {
    **_SOURCE,
    "instance_id": "pallets__flask-5",
    "git": {"url": "https://example.org/flask.git", "commit": "abc1234"},
}

ALL = {"classic": CLASSIC, "modern": MODERN, "sdist": SDIST, "directory": DIRECTORY, "git": GIT}
SECRETS = ("secret_of_the_tests", "secret_of_the_fix", "secret_of_the_mistake", "secret_id", "secret_picture")


def to_task(row: dict[str, Any], root: Path) -> Task:
    """The row as a task, with the repository that ``directory`` names in place."""
    (root / "repos" / "flask").mkdir(parents=True, exist_ok=True)
    return SweBenchRecipe().to_task(row, where="rows.jsonl:1", root=root)
