"""Batches and control runs: order, counts, what is on disk when."""

from __future__ import annotations

import json

import anyio
import pytest

from swe_sdk import measure
from swe_sdk.errors import CreateFailed, InputError, PredictionsError
from swe_sdk.grading.health import Health, TaskHealth, flaky_tests, health_of
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport
from swe_sdk.store.results import read_outcomes
from tests.grading.faulty import raises
from tests.grading.tiny import GOLD, UNAPPLIABLE, WRONG, make_task

anyio_mark = pytest.mark.anyio


@pytest.fixture
def tasks(tmp_path):
    """Four tasks over one repository; the first is by far the slowest one."""
    task = make_task(tmp_path / "repo")

    def numbered(number):
        command = f"sleep {2 if number == 1 else 0}; sh tests/check.sh"
        grading = task.grading.model_copy(update={"test_command": command})
        return task.model_copy(update={"instance_id": f"tiny__answer-{number}", "grading": grading})

    return [numbered(number) for number in range(1, 5)]


PATCHES = {"tiny__answer-1": GOLD, "tiny__answer-2": WRONG, "tiny__answer-3": UNAPPLIABLE, "tiny__answer-4": GOLD}


@anyio_mark
async def test_outcomes_are_in_order_and_on_disk_before_they_are_reported(provider, tasks, tmp_path):
    finished = []

    def on_outcome(outcome):
        assert outcome in read_outcomes(tmp_path / "r")
        finished.append(outcome.instance_id)

    outcomes = await measure.grade_many(
        tasks, PATCHES, provider=provider, results=tmp_path / "r", limit=4, on_outcome=on_outcome
    )
    assert [o.instance_id for o in outcomes] == [t.instance_id for t in tasks]
    assert [o.status for o in outcomes] == ["resolved", "unresolved", "unresolved", "resolved"]
    assert sorted(finished) == sorted(PATCHES)
    assert finished[-1] == "tiny__answer-1", "they ran at the same time"
    assert outcomes.path == tmp_path / "r"
    assert outcomes["tiny__answer-2"].patch.applied is True


@anyio_mark
async def test_limit_is_kept(faulty, tasks, tmp_path):
    provider = faulty()
    most = []
    create = provider.create

    async def counting(spec):
        box = await create(spec)
        most.append(provider.live)
        return box

    provider.create = counting
    await measure.grade_many(tasks, "gold", provider=provider, limit=2, results=tmp_path / "r")
    assert max(most) == 2


@anyio_mark
async def test_one_masked_item_stops_nobody(faulty, tasks, tmp_path):
    provider = faulty({"create": raises(CreateFailed("no"), times=1)})
    outcomes = await measure.grade_many(tasks, "gold", provider=provider, limit=1, retries=0, results=tmp_path / "r")
    assert [o.status for o in outcomes] == ["masked", "resolved", "resolved", "resolved"]
    assert outcomes.mean_reward == 1.0
    assert outcomes.masked_rate == 0.25


@anyio_mark
async def test_tasks_without_a_patch_are_named(provider, tasks, tmp_path):
    outcomes = await measure.grade_many(
        tasks, {"tiny__answer-4": GOLD}, provider=provider, results=tmp_path / "r", progress=False
    )
    assert [o.instance_id for o in outcomes] == ["tiny__answer-4"]
    assert outcomes.skipped == ("tiny__answer-1", "tiny__answer-2", "tiny__answer-3")
    assert "3 without a patch" in outcomes.summary


@anyio_mark
async def test_cancelled_batch_keeps_what_is_finished_and_says_where(faulty, tasks, tmp_path, caplog):
    provider = faulty()
    slow = tasks[0].grading.model_copy(update={"test_command": "sleep 1000"})
    tasks[0] = tasks[0].model_copy(update={"grading": slow})
    with anyio.CancelScope() as scope:
        done = []

        def on_outcome(outcome):
            done.append(outcome)
            if len(done) == 3:
                scope.cancel()

        await measure.grade_many(
            tasks, "gold", provider=provider, results=tmp_path / "r", limit=4, on_outcome=on_outcome
        )
    assert scope.cancelled_caught
    assert {o.instance_id for o in read_outcomes(tmp_path / "r")} == {f"tiny__answer-{n}" for n in (2, 3, 4)}
    assert str(tmp_path / "r") in caplog.text
    assert "3 of 4" in caplog.text
    assert provider.live == 0


@anyio_mark
async def test_bad_arguments_are_plain_errors(provider, tasks, tmp_path):
    for arguments in ({"limit": 0}, {"policy": "nonsense"}, {"tests_timeout_s": -1}):
        with pytest.raises(InputError):
            await measure.grade_many(tasks, "gold", provider=provider, results=tmp_path / "r", **arguments)
    with pytest.raises(PredictionsError):
        await measure.grade_many(tasks, {"unknown": GOLD}, provider=provider, results=tmp_path / "r")
    with pytest.raises(InputError):
        await measure.validate(tasks, n=0, provider=provider, results=tmp_path / "r")


@anyio_mark
async def test_single_grades_share_one_directory_of_the_process(provider, tasks, tmp_path, monkeypatch):
    monkeypatch.setenv("SWE_SDK_RESULTS", str(tmp_path / "all"))
    first = await measure.grade(tasks[3], GOLD, provider=provider)
    second = await measure.grade(tasks[3], WRONG, provider=provider)
    (directory,) = (tmp_path / "all").iterdir()
    assert read_outcomes(directory) == [first, second]


@anyio_mark
async def test_validate_finds_sound_tasks_sound(provider, tasks, tmp_path):
    health = await measure.validate(tasks[3], n=2, provider=provider, results=tmp_path / "r")
    assert health.healthy
    assert health[0].runs == {"gold": ("resolved", "resolved"), "empty": ("unresolved",), "wrong": ("unresolved",)}
    assert len(read_outcomes(tmp_path / "r")) == 4, "each run is an execution of its own"
    assert json.loads(json.dumps(health.to_dict()))["tasks"][0]["status"] == "healthy"


FLAKY = (
    'echo "PASSED check::answer"; test $(($(date +%N | sed s/^0*//) / 1000 % 2)) = 0 && s=PASSED || s=SKIPPED;'
    ' echo "$s check::runs"'
)


@anyio_mark
async def test_validate_names_what_is_wrong(provider, tmp_path):
    task = make_task(tmp_path / "repo")

    def with_grading(name, **changes):
        grading = task.grading.model_copy(update=changes)
        return task.model_copy(update={"instance_id": name, "grading": grading})

    tasks = [
        with_grading("flaky", test_command=FLAKY, wrong_patch=None),
        with_grading("gold fails", gold_patch=task.grading.wrong_patch),
        with_grading("wrong resolves", wrong_patch=task.grading.gold_patch),
        with_grading("no gold", gold_patch=None),
        with_grading("broken", parser="nonsense"),
    ]
    health = await measure.validate(tasks, n=12, provider=provider, results=tmp_path / "r")
    assert {t.instance_id: t.status for t in health} == {
        "flaky": "unhealthy",
        "gold fails": "unhealthy",
        "wrong resolves": "unhealthy",
        "no gold": "unhealthy",
        "broken": "unknown",
    }
    assert health["flaky"].flaky == ("check::runs",)
    assert health.flaky == {"flaky": ("check::runs",)}
    assert "its tests pass without a patch" in health["flaky"].problems
    assert "gold patch failed in 12 of 12 runs" in health["gold fails"].problems[0]
    assert health["wrong resolves"].problems == ("its wrong patch resolves it",)
    assert "invalid_task in admission" in health["broken"].mask
    assert not health.healthy
    assert health.summary == "0 healthy, 4 unhealthy, 1 unknown of 5"


def outcome(status="resolved", name="t", tests=None, flags=()):
    mask = Mask(kind="sandbox_lost", stage="tests", reason="<b>gone</b>") if status == "masked" else None
    return Outcome(
        instance_id=name,
        family="swe-bench",
        status=status,
        reward=float(status == "resolved"),
        mask=mask,
        reason="<script>alert(1)</script>",
        tests=TestReport(fail_to_pass=tests or {"a": "PASSED", "b": "XFAIL"}, pass_to_pass={"c": "FAILED"}),
        patch=PatchReport(exists=True, applied=True, rung="git-apply", sha256="0" * 64),
        flags=flags,
        timings_s={"total": 1.25},
    )


def test_masked_outcomes_are_in_no_mean():
    outcomes = Outcomes([outcome("resolved", "a"), outcome("unresolved", "b"), outcome("masked", "c")])
    assert (outcomes.mean_reward, outcomes.masked_rate) == (0.5, 1 / 3)
    assert [len(part) for part in (outcomes.resolved, outcomes.unresolved, outcomes.masked)] == [1, 1, 1]
    assert Outcomes([outcome("masked")]).mean_reward is None
    assert (Outcomes([]).mean_reward, Outcomes([]).masked_rate) == (None, None)
    frame = outcomes.to_frame()
    assert frame["reward"].mean() == 0.5
    assert frame.loc["c", "mask_kind"] == "sandbox_lost"
    assert list(frame["f2p_passed"]) == [2, 2, 2]
    assert Outcomes([]).to_frame().empty


def test_outcomes_are_a_sequence_that_knows_ids():
    outcomes = Outcomes([outcome("resolved", "a"), outcome("unresolved", "b")])
    assert outcomes["b"].status == "unresolved"
    assert [o.instance_id for o in outcomes[:1]] == ["a"]
    with pytest.raises(KeyError):
        outcomes["c"]
    assert json.loads(json.dumps(outcomes.to_dict()))["resolved"] == 1
    assert repr(outcomes).startswith("<Outcomes: 1 resolved, 1 unresolved, 0 masked of 2")


def test_html_is_escaped_and_bounded():
    outcomes = Outcomes([outcome("masked", "<i>x</i>")] * 1000)
    html = outcomes._repr_html_()
    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;b&gt;gone&lt;/b&gt;" in html
    assert html.count("<tr>") == 51
    assert "and 950 more" in html
    health = Health([TaskHealth(instance_id="<i>", status="unhealthy", problems=("<script>",))])
    assert "<i>" not in health._repr_html_()
    assert "<script>" not in health._repr_html_()


def test_flaky_tests_differ_between_equal_runs():
    runs = [outcome(tests={"a": "PASSED", "b": status}) for status in ("PASSED", "PASSED", "FAILED")]
    assert flaky_tests(runs) == ["b"]
    assert flaky_tests([*runs[:2], outcome("masked", tests={"a": "MISSING", "b": "MISSING"})]) == []
    assert flaky_tests([]) == []


def test_masks_make_health_unknown_but_hide_no_problem():
    gold, bad, masked = outcome(), outcome("unresolved"), outcome("masked")
    assert health_of("t", {"gold": [gold, masked], "empty": [bad]}).status == "unknown"
    assert health_of("t", {"gold": [bad, masked], "empty": [bad]}).status == "unhealthy"
    assert health_of("t", {"gold": [gold], "empty": [bad]}).status == "healthy"


@anyio_mark
async def test_progress_shows_counts_on_a_terminal_only(provider, tasks, tmp_path, capsys, monkeypatch):
    await measure.grade_many(tasks[2:], "gold", provider=provider, results=tmp_path / "r")
    assert capsys.readouterr().err == "", "standard error is no terminal here"
    monkeypatch.setattr("swe_sdk.progress.looked_at", lambda: "terminal")
    patches = {t.instance_id: PATCHES[t.instance_id] for t in tasks[2:]}
    await measure.grade_many(tasks[2:], patches, provider=provider, results=tmp_path / "r")
    await measure.validate(tasks[3], n=1, provider=provider, results=tmp_path / "r")
    shown = capsys.readouterr().err
    assert "2/2 patches  1 resolved  1 unresolved  0 masked" in shown
    assert "3/3 control runs" in shown
    await measure.grade_many(tasks[2:], "gold", provider=provider, results=tmp_path / "r", progress=False)
    assert capsys.readouterr().err == ""


@anyio_mark
async def test_progress_tells_of_builds(provider, tasks, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("swe_sdk.progress.Progress.say", lambda _self, line: said.append(line))
    environment = tasks[0].environment.model_copy(update={"install": ("true # a new environment",)})
    fresh = [tasks[3].model_copy(update={"environment": environment})]
    await measure.grade_many(fresh, "gold", provider=provider, results=tmp_path / "r")
    assert any(line.startswith("tiny__answer-4: freezing") for line in said)
