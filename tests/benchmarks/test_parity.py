"""The comparison with the official harness: its parts, and a small one as a whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import docker
import pytest

from benchmarks.parity import images
from benchmarks.parity.floor import Pairs
from benchmarks.parity.grades import Grade, Grader, differences
from benchmarks.parity.page import Comparison
from benchmarks.parity.published import comparison, not_run
from benchmarks.parity.script import source_row
from benchmarks.parity.tasks import MOST_EVAL_S, select
from benchmarks.report import BEGIN, END
from benchmarks.rows import Unavailable
from swe_sdk.recipes.dataset import load_tasks
from swe_sdk.sandbox.prepared import PreparedEnvironment
from tests.sandbox.docker.images import busybox_image, need_engine
from tests.shared import need_program, shared_dir, shared_rows

_ROOT = Path(__file__).resolve().parents[2]
_PREPARED = PreparedEnvironment(
    key="k", env={"PATH": "/opt/venv/bin:/bin", "VIRTUAL_ENV": "/opt/venv", "TZ": "U'T C"}, base_commit="f" * 40
)
_TWO = ("django__django-15863", "pytest-dev__pytest-10051")


def _grader(name: str, *grades: tuple[str, Grade]) -> Grader:
    return Grader(name, {(instance, "gold"): grade for instance, grade in grades}, {"gold": 10.0})


def test_grades_differ_by_verdict_or_by_the_status_of_a_test() -> None:
    official = _grader(
        "them", ("a", Grade("resolved", {"t": "PASSED"})), ("b", Grade("empty")), ("c", Grade("no report", note="why"))
    )
    same = _grader("us", ("a", Grade("resolved", {"t": "PASSED"})), ("b", Grade("unresolved", {"t": "FAILED"})))
    assert differences(official, same) == []
    other = _grader(
        "us",
        ("a", Grade("resolved", {"t": "XFAIL"})),
        ("b", Grade("resolved", {"t": "PASSED"})),
        ("c", Grade("unresolved", {"t": "FAILED"})),
        ("not theirs", Grade("resolved")),
    )
    assert differences(official, other) == [
        "a, gold: t is PASSED by them, XFAIL by us",
        "b, gold: them says empty, us resolved",
        "c, gold: them says no report, us unresolved (why)",
    ]
    masked = _grader("us", ("a", Grade("masked: sandbox_lost in tests")))
    assert differences(official, masked) == ["a, gold: them says resolved, us masked: sandbox_lost in tests"]


def test_the_page_judges_ratios_of_one_run() -> None:
    official = _grader("them", ("a", Grade("resolved", {"t": "PASSED"}, 20.0, 2.0)))
    ours = Grader("us", {("a", "gold"): Grade("resolved", {"t": "PASSED"}, 3.0, 2.0)}, {"gold": 3.0})
    pairs = Pairs({("a", "gold"): [1.0, 3.0]}, {("a", "gold"): [2.5]}, {"create": [1.5], "total": [9.0]})
    found = Comparison(official, ours, workers=2, pairs=pairs, not_run="- a ship")
    assert [(row.ratio, row.met) for row in found.figures() if row.ratio] == [
        (pytest.approx(0.3), True),
        (pytest.approx(1 / 18), True),
        (pytest.approx(1.25), True),
    ]
    page = found.markdown()
    assert "None, in 2 grades and 2 statuses of tests." in page
    assert "create 1500" in page
    assert page.endswith("- a ship")
    assert found.to_json()["differences"] == []


def test_published_figures_stand_beside_what_was_found() -> None:
    table = comparison([_grader("them", ("astropy__astropy-7606", Grade("unresolved"))), _grader("us")])
    (misses,) = (line for line in table.splitlines() if "does not resolve" in line)
    assert misses.split("|")[3].strip() == "0 of 1, by all graders"
    (named,) = (line for line in table.splitlines() if "as officially" in line)
    assert named.split("|")[3].strip() == "not run here"
    listed = not_run(["a__a-1"], ["b__b-2"], ["a__a-1", "b__b-2", "c__c-10", "c__c-9"], {"c__c-9": "no", "x-1": "why"})
    assert listed.splitlines()[0] == "- x-1: why"
    assert "the other 498 are" in listed
    assert listed.splitlines()[2:] == ["    - c: 9, 10", "    - 496 whose rows are not here either"]


@pytest.mark.shared
@pytest.mark.parametrize("row", shared_rows("swebench_sdist/tasks_py311.jsonl"), ids=lambda row: row["instance_id"])
def test_our_recipe_reads_the_script_that_the_harness_runs(row: dict[str, Any]) -> None:
    """Both graders get one row: what is taken out of its script is what the task has."""
    (task,) = load_tasks([row])
    made = source_row(row, task, _PREPARED, "sweb.eval.x86_64.x:latest")
    (read,) = load_tasks([made])
    for field in ("test_patch", "test_command", "parser", "eval_type", "fail_to_pass", "pass_to_pass", "gold_patch"):
        assert getattr(read.grading, field) == getattr(task.grading, field), field
    assert "git checkout" not in read.grading.prelude
    assert "export TZ='U'\"'\"'T C'" in read.grading.prelude
    assert made["eval_script"].count("f" * 40) == 3  # what differs from it, and the reset before and after


@pytest.mark.shared
def test_quick_tasks_are_of_all_repositories_that_have_some() -> None:
    shared_dir()
    selection = select(None, [])
    assert len(selection.rows) == 12
    assert max(row["eval_seconds"] for row in selection.rows.values()) <= MOST_EVAL_S
    assert len({row["repo"] for row in selection.rows.values()}) == 5
    assert selection.sources == list(selection.tasks)


@pytest.mark.shared
def test_tasks_that_the_harness_cannot_take_are_named(tmp_path: Path) -> None:
    classic = shared_rows("rows/swe-bench/verified_classic.jsonl")[:1]
    shared_dir()
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in classic))
    selection = select(str(tmp_path / "rows.jsonl"), [])
    assert selection.tasks == {}
    assert selection.absent == {classic[0]["instance_id"]: "the row has no eval_script, which the harness runs"}


def test_an_image_that_somebody_else_has_made_is_left_alone() -> None:
    need_engine()
    name, api = "sweb.eval.x86_64.nobody__nothing-1", images.connect()
    api.tag(busybox_image(), name, "latest")
    try:
        with pytest.raises(Unavailable, match="was not built for this"):
            images.official_image(api, "Nobody__nothing-1", _PREPARED)
    finally:
        api.remove_image(f"{name}:latest")


def test_an_image_of_ours_has_official_settings_and_is_made_once_for_a_snapshot() -> None:
    need_engine()
    api, name = images.connect(), "sweb.eval.x86_64.nobody__nothing-2:latest"
    snapshots = [f"snap-{number:012x}" for number in (os.getpid(), os.getpid() + (1 << 40))]
    try:
        made = []
        for snapshot in (*snapshots, snapshots[1]):
            api.tag(busybox_image(), "swe_sdk/snapshot", snapshot)
            prepared = _PREPARED.model_copy(update={"snapshot": snapshot})
            assert images.official_image(api, "nobody__nothing-2", prepared) == name
            made.append(api.inspect_image(name))
        assert made[0]["Id"] != made[1]["Id"] == made[2]["Id"]
        assert made[1]["Config"]["WorkingDir"] == "/testbed"
        assert made[1]["Config"]["StopSignal"] == "SIGTERM"
        with pytest.raises(docker.errors.ImageNotFound):
            api.inspect_image(made[0]["Id"])
    finally:
        for image in (name, *(f"swe_sdk/snapshot:{snapshot}" for snapshot in snapshots)):
            api.remove_image(image)


@pytest.mark.shared
@pytest.mark.network
def test_two_tasks_are_graded_as_by_the_official_harness(tmp_path: Path) -> None:
    shared_dir()
    need_engine()
    need_program("mmdebstrap")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    command = [sys.executable, "-m", "benchmarks.parity", "--ids", *_TWO, "--patches", "gold", "wrong", "--providers"]
    outputs = ["--json", str(tmp_path / "out.json"), "--markdown", str(page), "--state", str(tmp_path)]
    done = subprocess.run([*command, *outputs], cwd=_ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    official, ours = found["graders"]
    for grader in (official, ours):
        verdicts = {(grade["instance_id"], grade["patch"]): grade["verdict"] for grade in grader["grades"]}
        assert verdicts == {(name, "gold"): "resolved" for name in _TWO} | {
            (name, "wrong"): "unresolved" for name in _TWO
        }
        for grade in grader["grades"]:
            assert len(grade["statuses"]) in (10, 16)
            assert 0 < grade["eval_s"] < grade["wall_s"], grade
    assert found["differences"] == []
    assert [row["met"] is None for row in found["figures"]] == [True, False, True, False, True, False]
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "None, in 8 grades and 104 statuses of tests." in text
    left = [path.name for path in tmp_path.iterdir() if path.name.startswith("swe_sdk-benchmarks")]
    assert left == []
