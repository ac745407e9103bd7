"""``grade_many(executor=...)``: what becomes of outcomes when workers are lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk.errors import InputError, PrerequisiteError
from swe_sdk.executors.local import LocalExecutor
from swe_sdk.executors.registry import named_executor
from swe_sdk.model.task import Task
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.executors.lossy import LossyExecutor
from tests.grading.tiny import GOLD, WRONG


@pytest.fixture
def tasks(task: Task) -> list[Task]:
    return [task.model_copy(update={"instance_id": name}) for name in ("good", "bad", "none")]


PATCHES = {"good": GOLD, "bad": WRONG, "none": b""}
STATUSES = ["resolved", "unresolved", "unresolved"]


def grade(tasks: list[Task], executor: object, results: Path, **options: object) -> swe.aio.grade_many:
    return swe.grade_many(
        tasks, PATCHES, executor=executor, provider="local", results=results, progress=False, **options
    )


def test_outcomes_of_an_executor_are_those_of_this_process_and_on_disk(tasks: list[Task], tmp_path: Path) -> None:
    heard: list[str] = []
    here = grade(tasks, None, tmp_path / "here")
    there = grade(tasks, LocalExecutor(slots=2), tmp_path / "there", on_outcome=lambda o: heard.append(o.instance_id))
    assert [outcome.status for outcome in there] == STATUSES
    for one, other in zip(here, there, strict=True):
        assert (one.tests, one.key, one.patch, one.flags) == (other.tests, other.key, other.patch, other.flags)
    assert sorted(heard) == ["bad", "good", "none"]
    lines = (tmp_path / "there" / "outcomes.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["instance_id"] for line in lines) == ["bad", "good", "none"]
    for outcome in there:
        assert Path(outcome.artifacts["log"]).is_relative_to(tmp_path / "there")
        assert Path(outcome.artifacts["patch"]).read_bytes() == PATCHES[outcome.instance_id]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_grade_is_tried_again_and_says_so(tasks: list[Task], tmp_path: Path, when: str) -> None:
    executor = LossyExecutor(2, when=when)  # type: ignore[arg-type]
    outcomes = grade(tasks, executor, tmp_path / "results")
    assert [outcome.status for outcome in outcomes] == STATUSES
    earlier = [outcome.evidence.get("earlier_workers", []) for outcome in outcomes]
    assert sorted(len(each) for each in earlier) == [0, 1, 1]
    (mask,) = next(each for each in earlier if each)
    assert (mask["kind"], mask["retryable"], mask["evidence"]["node"]) == ("lost_worker", True, "somewhere")
    assert len(executor.jobs) == 5
    assert len((tmp_path / "results" / "outcomes.jsonl").read_text().splitlines()) == 3


def test_without_retries_left_it_is_masked_and_no_measurement(tasks: list[Task], tmp_path: Path) -> None:
    outcomes = grade(tasks, LossyExecutor(1), tmp_path / "results", retries=0)
    (masked,) = outcomes.masked
    assert masked.mask is not None
    assert (masked.mask.kind, masked.mask.stage, masked.mask.retryable) == ("lost_worker", "verify", True)
    assert "it was switched off" in masked.mask.reason
    assert set(masked.tests.fail_to_pass.values()) == {"MISSING"}
    assert len(outcomes.resolved) + len(outcomes.unresolved) == 2


def test_equal_grades_are_evaluated_once(tmp_path: Path, tasks: list[Task]) -> None:
    outcomes = swe.grade_many(
        [tasks[0]] * 3, {"good": GOLD}, executor=LocalExecutor(slots=3), provider="local",
        results=tmp_path / "results", progress=False,
    )  # fmt: skip
    assert [outcome.status for outcome in outcomes] == ["resolved"] * 3
    assert len(list((tmp_path / "results" / "artifacts" / "good").iterdir())) == 1


def test_what_cannot_travel_is_refused_before_anything_runs(tasks: list[Task], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="object of this process"):
        swe.grade_many(tasks, PATCHES, executor=LocalExecutor(), provider=LocalProvider(), results=tmp_path / "r")
    with pytest.raises(InputError, match="set it on the executor"):
        grade(tasks, LocalExecutor(), tmp_path / "r", limit=3)
    with pytest.raises(InputError, match="did you mean slurm"):
        grade(tasks, "slum", tmp_path / "r")
    with pytest.raises(InputError, match="tests_timeout_s"):
        grade(tasks, LocalExecutor(), tmp_path / "r", tests_timeout_s=-1.0)


@pytest.mark.parametrize("name", ["ray", "slurm"])
def test_an_engine_that_is_not_installed_is_named(
    name: str, tasks: list[Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, {"ray": "ray", "slurm": "submitit"}[name], None)
    with pytest.raises(PrerequisiteError, match=rf"pip install 'swe_sdk\[{name}\]'"):
        grade(tasks, name, tmp_path / "r")


def test_limit_is_for_each_node() -> None:
    assert named_executor("ray", limit=3).slots == 3  # type: ignore[attr-defined]
    assert named_executor("slurm", limit=4).slots == 4  # type: ignore[attr-defined]
    assert named_executor("local").slots is None  # type: ignore[attr-defined]
