"""Stored verdicts are given again without any agent, side by side with the old ones, which stay as they were."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk import aio, measure
from swe_sdk.cli import main
from swe_sdk.errors import InputError
from swe_sdk.grading.regrades import Regrade, Regrades
from swe_sdk.model.outcome import Mask, Outcome, PatchReport
from swe_sdk.model.outcome import TestReport as Tests
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.results import Results
from tests.grading.tiny import CHECK as SEEN
from tests.grading.tiny import GOLD, NEW_CHECK, TEST_PATCH, WRONG, diff, make_task

pytestmark = pytest.mark.anyio
HARDER = NEW_CHECK.replace("answer = 42", "answer = 43")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make_task(tmp_path / "repo")


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWE_SDK_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("SWE_SDK_INDEX", str(tmp_path / "index"))
    monkeypatch.setenv("SWE_SDK_RESULTS", str(tmp_path / "some-results"))


def other_rules(task: Task) -> Task:
    """The same task, whose hidden tests now ask for what the wrong patch does."""
    hidden = Patch.of(diff({"tests/check.sh": SEEN}, {"tests/check.sh": HARDER}))
    return task.model_copy(update={"grading": task.grading.model_copy(update={"test_patch": hidden})})


def outcome(status: str, **more: object) -> Outcome:
    """One that was made by nobody."""
    mask = Mask(kind="sandbox_lost", stage="tests", reason="gone") if status == "masked" else None
    patch = PatchReport(exists=True, sha256="0" * 64)
    fields = {"instance_id": "<i>", "family": "f", "status": status, "reward": 0, "mask": mask, "patch": patch}
    return Outcome.model_validate({**fields, **more})


async def stored(provider: LocalProvider, task: Task, folder: Path) -> Results:
    results = Results(folder)
    for patch in (GOLD, WRONG, GOLD):
        await measure.grade(task, patch, provider=provider, results=results, share=False)
    return results


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_results_directory_is_verified_once_more(local_provider, task: Task, tmp_path: Path) -> None:
    old = await stored(local_provider, task, tmp_path / "old")
    before = content(old.path)
    again = await aio.regrade(old.path, task, provider=local_provider, results=tmp_path / "new", progress=False)
    assert [(each.name, each.after.status) for each in again] == [
        ("tiny__answer-1", "resolved"),
        ("tiny__answer-1#2", "unresolved"),
    ], "equal patches are graded once"
    assert again.changed == []
    assert again.summary == "0 of 2 verdicts changed"
    assert len(Results(tmp_path / "new").read()) == 2
    assert content(old.path) == before


async def test_changed_verdicts_stand_side_by_side(local_provider, task: Task, tmp_path: Path) -> None:
    old = await stored(local_provider, task, tmp_path / "old")
    seen: list[Regrade] = []
    again = await aio.regrade(
        old.path, other_rules(task), provider=local_provider, results=tmp_path / "new", on_regrade=seen.append
    )
    assert [(each.before.status, each.after.status) for each in again.changed] == [
        ("resolved", "unresolved"),
        ("unresolved", "resolved"),
    ]
    assert again["tiny__answer-1"].tests == (("check::answer", "PASSED", "FAILED"),)
    assert again.summary == "2 of 2 verdicts changed: 1 resolved -> unresolved, 1 unresolved -> resolved"
    assert sorted(each.name for each in seen) == ["tiny__answer-1", "tiny__answer-1#2"]
    told = json.loads(json.dumps(again.to_dict()))["regrades"][0]
    assert (told["before"]["reward"], told["after"]["reward"]) == (1.0, 0.0)
    assert told["tests"] == {"check::answer": ["PASSED", "FAILED"]}
    assert list(again.to_frame()["after"]) == ["unresolved", "resolved"]


async def test_only_some_of_them(local_provider, task: Task, tmp_path: Path) -> None:
    old = await stored(local_provider, task, tmp_path / "old")
    again = await aio.regrade(
        old.path, task, only=["unresolved"], provider=local_provider, results=tmp_path / "new", progress=False
    )
    assert [each.before.status for each in again] == ["unresolved"]


async def test_a_directory_that_was_moved(local_provider, task: Task, tmp_path: Path) -> None:
    old = await stored(local_provider, task, tmp_path / "old")
    shutil.move(old.path, tmp_path / "elsewhere")
    again = await aio.regrade(
        tmp_path / "elsewhere", [task], provider=local_provider, results=tmp_path / "new", progress=False
    )
    assert (len(again), again.skipped) == (2, {})


async def test_what_cannot_be_graded_again_is_named(local_provider, task: Task, tmp_path: Path) -> None:
    results = Results(tmp_path / "old")
    names = ("kept", "lost", "changed", "unknown", "never-began")
    tasks = {name: task.model_copy(update={"instance_id": name}) for name in names}
    for name in names[:4]:
        await measure.grade(tasks[name], GOLD, provider=local_provider, results=results, share=False)
    for name, action in (("lost", Path.unlink), ("changed", lambda path: path.write_bytes(WRONG))):
        (file,) = (results.path / "artifacts" / name).glob("*/patch.diff")
        action(file)
    results.append(outcome("masked", instance_id="never-began"))
    known = [tasks[name] for name in names if name != "unknown"]
    again = await aio.regrade(results.path, known, provider=local_provider, results=tmp_path / "new", progress=False)
    assert [each.name for each in again] == ["kept"]
    assert again.skipped == {
        "lost": "its patch was not kept",
        "changed": "the patch that lies there is not the one that was graded",
        "unknown": "there is no task 'unknown'",
        "never-began": "its patch was not kept",
    }
    assert "4 could not be graded again" in again.summary


async def test_a_results_directory_keeps_no_tasks(task: Task, tmp_path: Path) -> None:
    Results(tmp_path / "old").append(outcome("unresolved"))
    with pytest.raises(InputError, match="keeps no tasks"):
        await aio.regrade(tmp_path / "old")
    with pytest.raises(InputError, match="cannot read outcomes"):
        await aio.regrade(tmp_path / "nothing", task)


@pytest.fixture
def a_run(local_provider, task: Task) -> Callable[[], swe.Run]:
    def run() -> swe.Run:
        others = [task.model_copy(update={"instance_id": f"tiny__answer-{n}"}) for n in (1, 2)]
        return swe.run(others, agent="gold", provider=local_provider, samples=2, progress=False)

    return run


def test_a_run_keeps_its_tasks(local_provider, task: Task, tmp_path: Path, a_run: Callable[[], swe.Run]) -> None:
    with a_run() as run:
        before = {rollout.id: rollout.outcome for rollout in run.rollouts.values()}
        assert {outcome.status for outcome in before.values() if outcome} == {"resolved"}
        again = swe.regrade(run, provider=local_provider, results=tmp_path / "new", progress=False)
        assert {each.name: each.after.status for each in again} == dict.fromkeys(before, "resolved")
        assert len(Results(tmp_path / "new").read()) == 2, "two samples of a task with one patch are one grade"
        harder = [other_rules(each) for each in run.tasks]
        changed = swe.regrade(run.path, harder, provider=local_provider, results=tmp_path / "new", progress=False)
        assert len(changed.changed) == len(before) == 4
        assert {rollout.id: rollout.outcome for rollout in run.rollouts.values()} == before


@pytest.mark.parametrize("spoil", ["lost", "pipe", "folder", "link"])
def test_patches_that_cannot_be_read_stop_no_others(
    local_provider, tmp_path: Path, a_run: Callable[[], swe.Run], spoil: str
) -> None:
    with a_run() as run:
        first = run.path / "rollouts" / "tiny__answer-1.0" / "1" / "patch.diff"
        content = first.read_bytes()
        first.unlink()
        if spoil == "pipe":
            os.mkfifo(first)
        elif spoil == "folder":
            first.mkdir()
        elif spoil == "link":
            (tmp_path / "outside").write_bytes(content)
            first.symlink_to(tmp_path / "outside")
        again = swe.regrade(run, provider=local_provider, results=tmp_path / "new", progress=False)
        assert [each.after.status for each in again] == ["resolved"] * 3
        assert "its patch cannot be read" in again.skipped["tiny__answer-1.0"]


def test_the_command(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "repo"
    row = {
        "instance_id": task.instance_id, "family": "swe-bench", "repo": "tiny/answer", "directory": str(root),
        "test_command": "sh tests/check.sh", "log_parser": "parse_log_pytest", "FAIL_TO_PASS": ["check::answer"],
        "PASS_TO_PASS": ["check::runs"], "problem_statement": "x", "patch": GOLD.decode(),
        "test_patch": TEST_PATCH.decode(),
    }  # fmt: skip
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row))
    old, output = tmp_path / "old", tmp_path / "out.jsonl"
    assert main(["grade", str(rows), "--provider", "local", "--results", str(old)]) == 0
    harder = diff({"tests/check.sh": SEEN}, {"tests/check.sh": HARDER}).decode()
    rows.write_text(json.dumps({**row, "test_patch": harder}))
    command = ["regrade", str(old), "--tasks", str(rows), "--provider", "local", "--results", str(tmp_path / "new")]
    capsys.readouterr()
    assert main([*command, "--output", str(output), "--strict"]) == 1
    shown = capsys.readouterr().out
    assert "1 of 1 verdicts changed: 1 resolved -> unresolved" in shown
    assert "tiny__answer-1" in shown
    (line,) = output.read_text().splitlines()
    assert json.loads(line)["changed"] is True
    assert main([*command, "--only", "masked"]) == 0
    assert "0 of 0 verdicts changed" in capsys.readouterr().out
    assert main(["regrade", str(old), "--provider", "local"]) == 2
    assert "name the tasks" in capsys.readouterr().err


def test_text_of_tasks_is_shown_only() -> None:
    each = Regrade(name="<b>", before=outcome("masked"), after=outcome("unresolved", reason="<script>"))
    html = Regrades([each] * 300)._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert "and 250 more" in html
    assert each.tests == ()
    assert "masked -> unresolved" in each.line
    measured = Regrade(
        name="x",
        before=outcome("unresolved", tests=Tests(fail_to_pass={"a": "PASSED"})),
        after=outcome("unresolved", tests=Tests(fail_to_pass={"b": "FAILED"})),
    )
    assert measured.tests == (("a", "PASSED", "MISSING"), ("b", "MISSING", "FAILED"))
    assert not measured.changed
    assert "still unresolved" in measured.line
