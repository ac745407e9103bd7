"""Nested evaluation against a stand-in: inputs, command, report, and what becomes of a missing one.

The upstreams' own evaluators were not run: they are not at hand here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from swe_sdk.grading.verify import grade
from swe_sdk.model.task import Task
from swe_sdk.recipes.dataset import load_tasks
from tests.grading.tiny import GOLD, TEST_PATCH, WRONG, make_repo

pytestmark = pytest.mark.anyio

STAND_IN = Path(__file__).parent / "evaluators" / "stand_in.py"
PLACES = {
    "swe-bench": "swebench_setup/SWE-bench/swebench/harness/run_local_evaluation.py",
    "r2e-gym": "r2egym_setup/R2E-Gym/src/r2egym/agenthub/run/run_local_evaluation.py",
}


CHECK = 'sh tests/check.sh | grep -q "PASSED check::answer"'
ROWS: dict[str, dict[str, Any]] = {
    "swe-bench": {
        "instance_id": "tiny__answer-1",
        "test_command": CHECK,
        "log_parser": "parse_log_pytest",
        "FAIL_TO_PASS": ["check::answer"],
        "PASS_TO_PASS": [],
    },
    "swe-bench-multilingual": {
        "instance_id": "tiny__answer-1",
        "test_command": CHECK,
        "log_parser": "gtest",
        "FAIL_TO_PASS": ["check::answer"],
        "PASS_TO_PASS": [],
    },
    "r2e-gym": {"instance_id": "tiny__answer-1", "expected_output_json": {"answer": "PASSED"}, "repo_name": "tiny"},
}


def nested_task(folder: Path, family: str = "swe-bench") -> Task:
    script = {"run_tests.sh": CHECK + "\n"} if family == "r2e-gym" else None
    make_repo(folder / "repo", script)
    patches = {"patch": GOLD.decode(), "wrong_patch": WRONG.decode(), "test_patch": TEST_PATCH.decode()}
    row = {**ROWS[family], **patches, "directory": str(folder / "repo")}
    return load_tasks([row], family=f"{family}@nested")[0]


@pytest.fixture
def evaluator(tmp_path, monkeypatch):
    """Installs the stand-in as the evaluator of a family; returns how to make it misbehave."""
    monkeypatch.setenv("SWE_SDK_EVALUATORS", str(tmp_path / "evaluators"))

    def install(family: str, mode: str = "") -> None:
        place = tmp_path / "evaluators" / PLACES[family]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(STAND_IN, place)
        (place.parent / "mode").write_text(mode)

    return install


@pytest.mark.parametrize("family", PLACES)
async def test_the_evaluators_verdict_counts(family, provider, evaluator, tmp_path):
    evaluator(family)
    task = nested_task(tmp_path, family)
    gold = await grade(task, task.grading.gold_patch, provider=provider, retries=0)
    assert (gold.status, gold.patch.rung) == ("resolved", "predictions"), gold
    assert "nested" in gold.flags
    wrong = await grade(task, task.grading.wrong_patch, provider=provider, retries=0)
    empty = await grade(task, None, provider=provider, retries=0)
    assert (wrong.status, empty.status) == ("unresolved", "unresolved")
    assert wrong.reason == "the family's own evaluator says that it is not resolved"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("silent", "left no report"), ("garbage", "is not JSON"), ("other", "says nothing of tiny__answer-1")],
)
async def test_a_report_that_says_nothing_masks(mode, reason, provider, evaluator, tmp_path):
    """SW-28: a report without the instance is no zero."""
    evaluator("swe-bench", mode)
    task = nested_task(tmp_path)
    outcome = await grade(task, task.grading.gold_patch, provider=provider, retries=0)
    assert outcome.mask is not None
    assert (outcome.mask.kind, outcome.mask.stage) == ("evaluator_failed", "parse")
    assert reason in outcome.mask.reason


async def test_an_evaluator_that_hangs_is_a_timeout_of_the_tests(provider, evaluator, tmp_path):
    evaluator("swe-bench", "silent")
    task = nested_task(tmp_path)
    command = f"sleep 600\n{task.grading.test_command}"
    task = task.model_copy(update={"grading": task.grading.model_copy(update={"test_command": command})})
    outcome = await grade(task, task.grading.gold_patch, provider=provider, retries=0, tests_timeout_s=1)
    assert outcome.status == "unresolved"
    assert "tests_timed_out" in outcome.flags


async def test_without_the_evaluator_it_fails_fast_and_says_what_to_do(provider, tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_SDK_EVALUATORS", str(tmp_path / "none"))
    task = nested_task(tmp_path)
    outcome = await grade(task, task.grading.gold_patch, provider=provider, retries=0)
    assert outcome.mask is not None
    assert outcome.mask.kind == "capability_missing"
    assert "the box has no /swebench_setup/SWE-bench, which swe-bench@nested needs" in outcome.mask.reason
    assert "$SWE_SDK_EVALUATORS" in outcome.mask.evidence["remedy"]
    assert "tests" not in outcome.timings_s


def test_the_documented_commands(tmp_path):
    for family, options in {
        "swe-bench": "swebench.harness.run_local_evaluation --predictions_path P --instance_ids I --timeout 1800"
        " --dataset_name D --split test --run_id swe_sdk",
        "swe-bench-multilingual": "cd /root/evaluation || exit 1",
        "r2e-gym": "run_local_evaluation.py --predictions_path P --instance_id I --timeout 1800 --dataset D"
        " --output_dir",
    }.items():
        task = nested_task(tmp_path, family)
        shown = options.replace("P ", "/root/predictions.jsonl ").replace("I ", f"{task.instance_id} ")
        assert shown.replace("D ", "/root/dataset/data.jsonl ") in task.grading.test_command
        assert not task.grading.test_patch.exists
        folder = {"swe-bench": "swebench", "swe-bench-multilingual": "swebench_multilingual", "r2e-gym": "r2egym"}[
            family
        ]
        assert f"PYTHONPATH=/{folder}_setup/" in task.grading.test_command
