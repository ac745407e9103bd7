"""A run from its start to whoever looks at it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from swe_sdk import aio
from swe_sdk.agents import ScriptedAgent
from swe_sdk.agents.scripted import Exec, Fail, Write
from swe_sdk.errors import CreateFailed, InputError, UnknownAgent, UnknownLog, UnknownRollout
from swe_sdk.exports import read_nemo_gym_rows
from swe_sdk.model.policy import DEFAULT_POLICY
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.grading.faulty import FaultyProvider, raises

pytestmark = pytest.mark.anyio
HOSTILE = "\x1b[31m<script>alert('x')</script>\x07"
SOLVE = ScriptedAgent(
    actions=(
        Exec(command="sed -i 's/answer = 41/answer = 42/' src.txt"),
        Write(path="notes.txt", content=HOSTILE),
        Exec(command=("printf", "%s", HOSTILE)),
    )
)


@pytest.fixture(scope="module")
async def solved(local_provider: LocalProvider, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three tasks with two samples each, solved by a script that says nasty things."""
    from tests.grading.tiny import make_task

    folder = tmp_path_factory.mktemp("solved")
    task = make_task(folder / "repo")
    tasks = TaskSet([task.model_copy(update={"instance_id": f"tiny__answer-{n}"}) for n in (1, 2, 3)], name="tiny")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWE_SDK_INDEX", str(folder / "index"))
        run = await aio.run(
            tasks,
            SOLVE,
            budget="10m",
            samples=2,
            provider=local_provider,
            limit=2,
            path=folder / "run",
            name="<b>first</b>",
            progress=False,
            tests_timeout_s="90s",
        )
        yield run
        run.close()


async def test_all_of_it_is_there(solved: Run) -> None:
    assert len(solved.rollouts) == 6
    assert list(solved.rollouts)[:4] == [f"tiny__answer-{n}.0" for n in (1, 2, 3)] + ["tiny__answer-1.1"]
    assert all(each.resolved for each in solved.rollouts.values())
    assert solved.finished
    assert solved.metrics.mean_reward == 1.0
    assert (solved.metrics.pass_at_1.value, solved.metrics.pass_at_1.tasks) == (1.0, 3)
    assert [each.k for each in solved.metrics.pass_at] == [1, 2]
    assert {stage.stage for stage in solved.metrics.stages} == {
        "seed",
        "invoke_agent",
        "close_agent",
        "verify",
        "return",
    }
    assert solved.metrics.budget.used is not None
    assert 0 < solved.metrics.budget.used.max < 1
    assert (solved.row.agent, solved.row.dataset, solved.row.end_reason) == ("scripted", "tiny", "finished")


async def test_a_rollout_tells_its_story(solved: Run) -> None:
    rollout = solved.rollouts["tiny__answer-2.1"]
    assert (rollout.id, rollout.instance_id, rollout.sample, rollout.attempt) == (
        "tiny__answer-2.1",
        "tiny__answer-2",
        1,
        1,
    )
    assert (rollout.status, rollout.reward, rollout.mask, rollout.masked) == ("resolved", 1.0, None, False)
    assert rollout.outcome is not None
    assert rollout.outcome.tests.fail_to_pass == {"check::answer": "PASSED"}
    assert b"+answer = 42" in rollout.patch.data
    assert len(rollout.steps) == 3
    assert [step.n for step in rollout.steps] == [1, 2, 3]
    assert rollout.steps[-1].n == 3
    assert [step.n for step in rollout.steps[1:]] == [2, 3]
    with pytest.raises(IndexError):
        rollout.steps[3]
    assert (rollout.budget.total_s, rollout.budget.is_spent) == (600, False)
    assert [stage.stage for stage in rollout.stages] == ["seed", "invoke_agent", "close_agent", "verify", "return"]
    assert [attempt.end_reason for attempt in rollout.attempts] == ["done"]
    assert len(rollout.model_calls) == 0


async def test_logs_are_read_in_windows(solved: Run) -> None:
    rollout = solved.rollouts["tiny__answer-1.0"]
    said = rollout.log("output.log")
    assert said.tail() == HOSTILE
    assert said.read(1, 4) == b"[31m"
    assert said.size_bytes == len(HOSTILE)
    assert said.find("<script>") == HOSTILE.index("<script>")
    assert "\x1b" not in str(said)
    assert "<script>" not in said._repr_html_()
    tests = rollout.log("test.log")
    assert "PASSED check::answer" in tests.tail(5)
    assert "PASSED check::runs" in "\n".join(tests.lines(0, 100))
    with pytest.raises(UnknownLog, match=r"verify-1/test\.log"):
        rollout.log("tests.log")


async def test_rollouts_are_a_mapping_with_pages(solved: Run) -> None:
    rollouts = solved.rollouts
    assert "tiny__answer-1.0" in rollouts
    assert "tiny__answer-9.0" not in rollouts
    assert rollouts.get("tiny__answer-9.0") is None
    with pytest.raises(UnknownRollout, match=r"tiny__answer-1\.0"):
        rollouts["tiny__answer-1"]  # it has two samples
    assert [each.id for each in rollouts.page(2, 4)] == ["tiny__answer-2.1", "tiny__answer-3.1"]
    assert rollouts.page(9, 4) == []
    slowest = rollouts.page(1, 6, sort="seconds", descending=True)
    assert [each.row.seconds for each in slowest] == sorted((each.row.seconds for each in slowest), reverse=True)  # type: ignore[type-var]
    assert list(rollouts.where(instance_id="tiny__answer-3")) == ["tiny__answer-3.0", "tiny__answer-3.1"]
    assert len(rollouts.where(status=("masked", "unresolved"))) == 0
    assert len(rollouts.where(text="ANSWER-2", status="resolved")) == 2
    with pytest.raises(InputError, match="instance_id"):
        rollouts.where(instance="tiny__answer-3")
    with pytest.raises(InputError, match=r"'solved'.*resolved"):
        rollouts.where(status="solved")


async def test_conditions_that_nothing_can_meet_are_refused(solved: Run) -> None:
    rollouts = solved.rollouts
    with pytest.raises(InputError, match=r"unknown mask_stage 'invoke_agent' \(known: admission, agent, apply"):
        rollouts.where(mask_stage="invoke_agent")
    for condition in ({"mask_kind": "sandbox_lots"}, {"family": ("swe-bench", "swebench")}, {"provider": "dokcer"}):
        with pytest.raises(InputError, match=r"unknown .*known: "):
            rollouts.where(**condition)
    assert len(rollouts.where(mask_stage="agent", mask_kind=["sandbox_lost", "timeout"])) == 0
    assert len(rollouts.where(family="swe-bench@nested")) == 0
    assert len(rollouts.where(provider=next(iter(rollouts.values())).row.provider)) == 6, "also one of the user's own"
    assert len(rollouts.where(agent="nobody", repo="no/such")) == 0, "these may be anything"


async def test_frames_and_plain_data(solved: Run) -> None:
    frame = solved.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == list(solved.rollouts)
    assert frame["reward"].mean() == 1.0
    steps = solved.rollouts["tiny__answer-1.0"].to_frame()
    assert list(steps["n"]) == [1, 2, 3]
    whole = json.loads(json.dumps(solved.to_dict()))
    assert whole["metrics"]["resolved"] == len(whole["rollouts"]) == 6
    assert whole["config"]["budget_s"] == 600.0
    one = json.loads(json.dumps(solved.rollouts["tiny__answer-1.0"].to_dict()))
    assert one["outcome"]["status"] == "resolved"


async def test_nothing_that_an_agent_wrote_runs_where_it_is_shown(solved: Run) -> None:
    rollout = solved.rollouts["tiny__answer-1.0"]
    for shown in (solved._repr_html_(), rollout._repr_html_(), solved.rollouts._repr_html_()):
        assert "<script" not in shown
        assert "<b>first" not in shown
        assert "\x1b" not in shown
    for text in (repr(solved), repr(rollout), repr(rollout.logs), repr(rollout.steps)):
        assert "\x1b" not in text
        assert "\n" not in text
    assert "&lt;b&gt;first" in solved._repr_html_()
    assert "6 resolved" in repr(solved)


async def test_settings_and_tasks_are_kept_with_the_run(solved: Run) -> None:
    assert solved.plan is not None
    assert (solved.config.tests_timeout_s, solved.config.agent) == (90.0, "scripted")
    assert solved.plan.origins["tests_timeout_s"] == "argument"
    assert solved.plan.given == ("provider",), "the agent can be made again by its name and settings"
    assert solved.config.agent_settings == SOLVE.model_dump(mode="json")
    assert solved.tasks.ids == ("tiny__answer-1", "tiny__answer-2", "tiny__answer-3")
    assert solved.tasks[0].grading.fail_to_pass == ("check::answer",)
    file = solved.path / "artifacts" / "tasks.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "hidden tests are for the owner's eyes"
    assert sorted(solved.logs) == ["config.json", "tasks.jsonl"]


async def test_rows_of_nemo_gym_bring_the_rollouts_back(solved: Run, tmp_path: Path) -> None:
    records = list(solved.records())
    assert solved.export_nemo_gym(tmp_path / "rows.jsonl") == 6
    assert list(read_nemo_gym_rows(tmp_path / "rows.jsonl")) == records
    first = records[0]
    assert first.patch == solved.rollouts[first.rollout_id].patch
    assert first.problem_statement == solved.tasks[0].problem_statement
    assert set(first.stages_s) == set(first.stages_at) == {"seed", "invoke_agent", "close_agent", "verify", "return"}
    assert [turn.kind for turn in first.turns] == ["action"] * 3


async def test_open_again(solved: Run) -> None:
    with await aio.open_run(solved.path) as again:
        assert again.metrics == solved.metrics
        assert repr(again) == repr(solved)


# -- what came to no good ----------------------------------------------------------------------------------------------


@pytest.fixture
def faulty(local_provider: LocalProvider) -> Iterator[FaultyProvider]:
    provider = FaultyProvider(local_provider.state, {"create": raises(CreateFailed("no <room>"), times=1)})
    yield provider
    assert provider.live == 0


async def test_masks_are_kept_apart_everywhere(faulty: FaultyProvider, tasks: TaskSet) -> None:
    async with closing(faulty):
        run = await aio.run(tasks, "gold", provider=faulty, limit=1, retries=0, progress=False)
    with run:
        metrics = run.metrics
        assert (metrics.resolved, metrics.masked, metrics.mean_reward) == (2, 1, 1.0)
        assert metrics.masked_by_kind == {"create_failed": 1}
        assert metrics.infra_failed_rate == pytest.approx(1 / 3)
        assert (metrics.pass_at_1.tasks, metrics.pass_at_1.left_out) == (2, 1)
        assert metrics.pass_at_1.if_masked_failed == pytest.approx(2 / 3)
        (masked,) = run.rollouts.where(status="masked").values()
        assert masked.mask is not None
        assert (masked.mask.kind, masked.mask.retryable) == ("create_failed", True)
        assert run.to_frame()["reward"].mean() == 1.0, "no mean takes a mask for a zero"
        assert pd.isna(run.to_frame().loc[masked.id, "reward"])
        assert "no &lt;room&gt;" in run._repr_html_()
        rows = {each.instance_id: each for each in run.records()}
        assert rows[masked.instance_id].outcome.masked


async def test_a_lost_attempt_is_tried_again_and_stays_to_be_seen(faulty: FaultyProvider, task: Task) -> None:
    async with closing(faulty):
        run = await aio.run(task, "gold", provider=faulty, progress=False)
    with run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.status, rollout.attempt, run.metrics.retried) == ("resolved", 2, 1)
        assert [row.mask.kind for row in rollout.masks] == ["create_failed"]
        assert [attempt.will_retry for attempt in rollout.attempts] == [True, False]


async def test_an_agent_that_fails_is_graded_for_what_it_left(local_provider: LocalProvider, task: Task) -> None:
    agent = ScriptedAgent(actions=(Exec(command="sed -i 's/41/42/' src.txt"), Fail(reason="step_limit")))
    with await aio.run(task, agent, provider=local_provider, progress=False) as run:
        rollout = run.rollouts[task.instance_id]
        assert rollout.resolved
        assert rollout.outcome is not None
        assert "agent_step_limit" in rollout.outcome.flags
        assert next(iter(run.records())).outcome.flags == rollout.outcome.flags


async def test_a_policy_of_ones_own_is_kept_line_by_line(local_provider: LocalProvider, task: Task) -> None:
    own = DEFAULT_POLICY.override({("agent", "step_limit"): "masked_if_resolved"})
    agent = ScriptedAgent(actions=(Exec(command="sed -i 's/41/42/' src.txt"), Fail(reason="step_limit")))
    with await aio.run(task, agent, provider=local_provider, policy=own, progress=False) as run:
        assert run.rollouts[task.instance_id].masked
        assert run.plan is not None
        assert run.plan.policy.decisions == own.decisions


class closing:
    """Closes a provider at the end of a block."""

    def __init__(self, provider: FaultyProvider) -> None:
        self._provider = provider

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        await self._provider.aclose()


# -- what is refused before anything is made ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"agent": "glod"}, "gold"),
        ({"agent": "gold", "tests_timeout": 3}, "tests_timeout_s"),
        ({"agent": "gold", "budget": "soon"}, "budget_s"),
        ({"agent": "gold", "samples": 0}, "samples"),
        ({"agent": "gold", "limit": 0}, "limit"),
        ({"agent": "gold", "provider": "nowhere"}, "nowhere"),
        ({"agent": "gold", "policy": "lenient"}, "lenient"),
        ({"agent": "gold", "preset": "trainig"}, "training"),
        ({"agent": "gold", "verifier": "localhost"}, "http://127"),
        ({"agent": "scripted", "agent_settings": {"egress": "model"}}, "needs a model"),
        ({"agent": "gold", "agent_settings": {"submitt": True}}, "submitt"),
        ({"agent": "gold", "agent_version": "0"}, "agent_version"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_a_directory_is_made(
    task: Task, tmp_path: Path, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError) as caught:
        await aio.run(task, **arguments)
    assert told in str(caught.value)
    assert not (tmp_path / "runs").exists()


async def test_unknown_agents_have_an_error_of_their_own(task: Task) -> None:
    with pytest.raises(UnknownAgent):
        await aio.run(task, "glod")


async def test_tasks_must_be_there_and_of_different_names(task: Task) -> None:
    with pytest.raises(InputError, match="no tasks"):
        await aio.run([], "gold")
    with pytest.raises(InputError, match="same id"):
        await aio.run([task, task], "gold")


async def test_a_directory_in_use_is_left_alone(local_provider: LocalProvider, task: Task, tmp_path: Path) -> None:
    folder = tmp_path / "used"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        await aio.run(task, "gold", provider=local_provider, path=folder)
    assert list(folder.iterdir()) == [folder / "thesis.txt"]
    run = await aio.run(task, "noop", provider=local_provider, path=tmp_path / "run", progress=False)
    with run, pytest.raises(InputError, match="resume"):
        await aio.run(task, "gold", provider=local_provider, path=run.path)


async def test_no_run_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run directory"):
        await aio.open_run(tmp_path)
