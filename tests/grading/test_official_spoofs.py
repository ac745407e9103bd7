"""Spoofs that the official harness was given on pallets__flask-5014, made again and graded in our box."""

from __future__ import annotations

import json

import pytest

import swe_sdk as swe
from swe_sdk.grading.verify import grade
from tests.grading.calculator import MAKE_PASS
from tests.grading.tiny import diff
from tests.shared import shared_dir

pytestmark = [pytest.mark.anyio, pytest.mark.shared, pytest.mark.network, pytest.mark.timeout(600)]

INSTANCE = "pallets__flask-5014"
CLAIMS = "PASSED tests/test_blueprints.py::test_empty_name_not_allowed\nPASSED testing/test_collection.py::test_x\n"
PRINTS = f"import os\ndef pytest_unconfigure(config):\n    print({CLAIMS!r}, flush=True)\n"
PRINTS_AND_LEAVES = PRINTS + "    os._exit(0)\n"
SPOOFS = {
    "conftest hook spoof": (MAKE_PASS, "runner_files"),
    "conftest print spoof": (PRINTS, None),
    "conftest print spoof with exit code 0": (PRINTS_AND_LEAVES, "results_disagree"),
}


@pytest.fixture
def task() -> swe.Task:
    lines = (shared_dir() / "datasets/swebench_sdist/tasks.jsonl").read_text().splitlines()
    (row,) = [row for row in map(json.loads, lines) if row["instance_id"] == INSTANCE]
    return swe.load_tasks([row])[INSTANCE]


def test_what_the_official_harness_made_of_them() -> None:
    """The hook resolved the task there; the printed lines did not, for the exit code told otherwise."""
    index = shared_dir() / "datasets/logs/index.jsonl"
    runs = [run for run in map(json.loads, index.read_text().splitlines()) if run["instance_id"] == INSTANCE]
    verdicts = {run.get("prediction"): run["expected_resolved"] for run in runs}
    assert verdicts["conftest hook spoof"] is True
    assert verdicts["conftest print spoof"] is False


@pytest.mark.parametrize("name", SPOOFS)
async def test_spoofs_do_not_resolve(provider, task: swe.Task, name: str) -> None:
    code, kind = SPOOFS[name]
    outcome = await grade(task, diff({}, {"conftest.py": code}), provider=provider)
    assert outcome.status == "unresolved", outcome.evidence
    assert outcome.evidence.get("failure", {}).get("kind") == kind, (outcome.reason, outcome.evidence)
    assert outcome.evidence["tampered_paths"] == ["conftest.py"]


async def test_the_gold_patch_resolves(provider, task: swe.Task) -> None:
    outcome = await grade(task, task.grading.gold_patch, provider=provider)
    assert (outcome.status, outcome.flags) == ("resolved", ())
