"""Real SWE-bench Verified tasks, built from PyPI sdists and graded in local boxes, against recorded statuses.

``SWE_SDK_REAL_TASKS`` names a file of the data set and takes all of its rows, "tasks.jsonl" for example; otherwise a
subset that Python 3.11 alone can run.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from tests.shared import find_shared, shared_dir

_SUBSET = [
    "django__django-11119",
    "django__django-14089",
    "django__django-16642",
    "django__django-17029",
    "pallets__flask-5014",
    "pytest-dev__pytest-10051",
    "sphinx-doc__sphinx-11445",
    "sympy__sympy-23950",
    "sympy__sympy-24661",
]
_RECORDED = {"gold": "gold1", "empty": "test_only1", "wrong": "wrong1"}
_FILE = os.environ.get("SWE_SDK_REAL_TASKS") or "tasks_py311.jsonl"


def _ids() -> list[str]:
    if "SWE_SDK_REAL_TASKS" not in os.environ or find_shared() is None:
        return _SUBSET
    lines = (shared_dir() / "datasets" / "swebench_sdist" / _FILE).read_text().splitlines()
    return [json.loads(line)["instance_id"] for line in lines]


@pytest.fixture(scope="module")
def data() -> Path:
    return shared_dir() / "datasets" / "swebench_sdist"


@pytest.fixture(scope="module")
def rows(data: Path) -> dict[str, dict[str, Any]]:
    parsed = [json.loads(line) for line in (data / _FILE).read_text().splitlines()]
    return {row["instance_id"]: row for row in parsed}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("instance_id", _ids())
def test_statuses_equal_those_recorded(instance_id: str, data: Path, rows: dict[str, dict[str, Any]]) -> None:
    row = rows[instance_id]
    (task,) = swe.load_tasks([row])
    for patches, recorded in _RECORDED.items():
        log = data / "logs" / instance_id / f"py{row['python']}.{recorded}.status.json"
        expected = json.loads(log.read_text())["status"]
        (outcome,) = swe.grade_many([task], patches, provider="local", progress=False)
        assert outcome.status == ("resolved" if patches == "gold" else "unresolved"), outcome
        for kind, required in (("fail_to_pass", row["fail_to_pass"]), ("pass_to_pass", row["pass_to_pass"])):
            found = getattr(outcome.tests, kind)
            assert found == {test: expected.get(test, "MISSING") for test in required}, (patches, kind)
