"""Reports of the official harness are reproduced from its logs, and our stricter verdict agrees with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.recipes.parsers import decode_log
from swe_sdk.recipes.parsers.section import official_section, recorded_exit_code
from swe_sdk.recipes.resolve import Compat
from swe_sdk.recipes.swe_bench import SweBenchRecipe
from tests.shared import find_shared, shared_dir, shared_rows


def entries() -> list[dict[str, Any]]:
    """The logs with an official report and a parser of the official registry."""
    return [
        entry
        for entry in shared_rows("logs/index.jsonl")
        if entry.get("report") and entry["framework"].startswith("parse_log_")
    ]


def name_of(entry: dict[str, Any]) -> str:
    return str(entry["file"])


def generation_of(entry: dict[str, Any]) -> Compat:
    """4.1.0 where it made the report, or where 5.x (for a log without any result) would not make the same."""
    older = "4.1.0" in entry["format"] or entry.get("regrade_v5_same_as_stored") is False
    return "4.1.0" if older else "5.x"


def report_of(entry: dict[str, Any]) -> dict[str, Any]:
    text = (shared_dir() / "datasets" / "logs" / entry["report"]).read_text("utf-8")
    report: dict[str, Any] = json.loads(text)[entry["instance_id"]]
    return report


def log_of(entry: dict[str, Any]) -> str:
    return decode_log((shared_dir() / "datasets" / "logs" / entry["file"]).read_bytes())


ROWS = {
    row["instance_id"]: row
    for row in shared_rows("rows/swe-bench/verified_v5.jsonl", "rows/swe-bench/marked_v5_js.jsonl")
}


def task_of(entry: dict[str, Any]) -> Task:
    """The task of a log: from its row where that is shared, else with the ids that its report lists."""
    instance = entry["instance_id"]
    if instance in ROWS:
        return SweBenchRecipe().to_task(ROWS[instance], where=instance, root=shared_dir())
    status = report_of(entry)["tests_status"]
    required = {name: tuple(status[name]["success"] + status[name]["failure"]) for name in status}
    return Task(
        instance_id=instance,
        family="swe-bench",
        repo=entry["repo"],
        environment=ImageEnvironment(image="none"),
        grading=GradingSpec(
            fail_to_pass=required["FAIL_TO_PASS"],
            pass_to_pass=required["PASS_TO_PASS"],
            test_command="none",
            parser=entry["framework"],
        ),
    )


def as_sets(status: dict[str, dict[str, list[str]]]) -> dict[str, dict[str, list[str]]]:
    """The required lists of a report, sorted: where the row is not shared, their order is not known."""
    lists = ("FAIL_TO_PASS", "PASS_TO_PASS")
    return {name: {kind: sorted(ids) for kind, ids in status[name].items()} for name in lists}


@pytest.mark.shared
def test_the_shared_logs_are_there():
    shared_dir()
    assert len(entries()) >= 80


@pytest.mark.shared
@pytest.mark.parametrize("entry", entries(), ids=name_of)
def test_the_official_report_is_reproduced(entry):
    stored = report_of(entry)
    report = SweBenchRecipe(generation_of(entry)).judge_log(task_of(entry), log_of(entry))
    assert report.found == stored["patch_successfully_applied"]
    assert report.resolved == stored["resolved"]
    if report.found:
        assert report.tests_status is not None
        assert as_sets(report.tests_status) == as_sets(stored["tests_status"])
    else:
        assert report.tests_status is None
        assert "tests_status" not in stored


@pytest.mark.shared
@pytest.mark.parametrize("entry", entries(), ids=name_of)
def test_our_verdict_on_the_test_section_is_the_official_one(entry):
    task, log = task_of(entry), log_of(entry)
    recipe = SweBenchRecipe()
    found = recipe.judge(task, recipe.parse(task, official_section(log).text), recorded_exit_code(log))
    assert found.resolved == recipe.judge_log(task, log).resolved
    assert bool(found.reason) is not found.resolved


@pytest.mark.shared
def test_logs_without_results_are_not_found(tmp_path):
    shared_dir()
    task = SweBenchRecipe().to_task(ROWS["pallets__flask-5014"], where="row", root=tmp_path)
    start, end = ">>>>> Start Test Output", ">>>>> End Test Output"
    for log in ("", start, f"{start}\n{end}", f">>>>> Patch Apply Failed\n{start}\nPASSED a\n{end}"):
        report = SweBenchRecipe().judge_log(task, log)
        assert (report.found, report.resolved, report.tests_status) == (False, False, None)


def test_a_quiet_fail_only_run_counts_only_with_a_sign_that_it_took_place():
    recipe = SweBenchRecipe()
    task = Task(
        instance_id="a",
        family="swe-bench",
        repo="a/a",
        environment=ImageEnvironment(image="none"),
        grading=GradingSpec(fail_to_pass=("t",), test_command="none", parser="pytest", eval_type="fail_only"),
    )
    for section, resolved in (("", False), ("Executed 0 of 0", False), ("12 specs, 0 failures", True)):
        assert recipe.judge(task, recipe.parse(task, section), 0).resolved is resolved


@pytest.mark.shared
def test_the_calibrated_runs_get_their_recorded_verdicts(tmp_path):
    """Gold resolves, tests without a fix and the wrong fix do not, on every recorded run of the sdist tasks."""
    shared, recipe, seen = shared_dir() / "datasets" / "swebench_sdist", SweBenchRecipe(), 0
    for row in shared_rows("swebench_sdist/tasks.jsonl"):
        task = recipe.to_task(row, where=row["instance_id"], root=tmp_path)
        for kind, resolved in (("gold1", True), ("test_only1", False), ("wrong1", False)):
            base = shared / "logs" / row["instance_id"] / f"py{row['python']}.{kind}"
            recorded = json.loads(base.with_name(f"{base.name}.status.json").read_text("utf-8"))
            statuses = recipe.parse(task, decode_log(base.with_name(f"{base.name}.log").read_bytes()))
            assert recipe.judge(task, statuses, recorded["exit_code"]).resolved is resolved
            seen += 1
    assert seen == 105


def test_the_folder_is_found_by_its_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_SDK_SHARED", str(tmp_path))
    assert find_shared() is None
