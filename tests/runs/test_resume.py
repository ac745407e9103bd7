"""A run that was stopped goes on: what is finished is kept, and nothing is done twice."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio
import pytest

from swe_sdk import aio
from swe_sdk.agents import ScriptedAgent
from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode
from swe_sdk.agents.scripted import Exec, Wait
from swe_sdk.errors import CreateFailed, InputError
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.runs.folder import RunPlan
from swe_sdk.runs.lock import held_run
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.writer import RunWriter
from tests.grading.faulty import FaultyProvider, raises

pytestmark = pytest.mark.anyio
SLOW = ScriptedAgent(actions=(Exec(command="sed -i 's/41/42/' src.txt"), Wait(seconds=0.5)))


async def stopped_after_one(provider: LocalProvider, tasks: TaskSet, path: Path, **options: object) -> None:
    """A run that is cancelled when its first rollout is finished, and another one is under way."""
    with anyio.CancelScope() as scope:

        def stop(_: RolloutResult) -> None:
            scope.cancel()

        await aio.run(tasks, SLOW, provider=provider, path=path, progress=False, on_result=stop, limit=2, **options)  # type: ignore[arg-type]
    assert scope.cancelled_caught


def test_what_was_named_goes_on_by_a_command() -> None:
    plan = RunPlan.model_construct()
    assert plan.ways_on(Path("/a b")) == "swe.resume('/a b'), or: swe-sdk resume '/a b'"


async def test_a_stopped_run_goes_on_where_it_was(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run"
    with caplog.at_level(logging.WARNING):
        await stopped_after_one(local_provider, tasks, path, tests_timeout_s=77)
    assert f"Go on with swe.resume({str(path)!r}, provider=...)" in caplog.text
    assert "swe-sdk resume" not in caplog.text, "it could not hand the provider over"
    assert local_provider.boxes == {}, "every sandbox is closed"
    with await aio.open_run(path) as before:
        assert (before.row.end_reason, before.finished) == ("stopped", False)
        done = {row.rollout_id: row.ended_at for row in before.rollouts.rows() if row.status == "resolved"}
        reached = {row.rollout_id: row.attempt for row in before.rollouts.rows()}
        assert 1 <= len(done) < 3
        assert before.metrics.unfinished == 3 - len(done)
    heard: list[str] = []
    with await aio.resume(
        path, provider=local_provider, progress=False, on_result=lambda result: heard.append(result.rollout_id)
    ) as run:
        assert run.finished
        assert (run.row.end_reason, run.row.times_resumed) == ("finished", 1)
        assert sorted([*heard, *done]) == sorted(run.rollouts), "none was lost, and none done twice"
        assert {row.status for row in run.rollouts.rows()} == {"resolved"}
        assert {name: run.rollouts[name].row.ended_at for name in done} == done
        assert {row.rollout_id: row.attempt for row in run.rollouts.rows()} == {
            name: attempt if name in done else attempt + 1 for name, attempt in reached.items()
        }
        assert run.config.tests_timeout_s == 77


async def test_what_was_never_begun_begins_with_its_first_attempt(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    with anyio.CancelScope() as scope:
        await aio.run(
            tasks, SLOW, provider=local_provider, path=path, progress=False, limit=1, on_result=lambda _: scope.cancel()
        )
    with await aio.resume(path, provider=local_provider, progress=False) as run:
        assert sorted(row.attempt for row in run.rollouts.rows()) in ([1, 1, 1], [1, 1, 2])
        assert run.finished


async def test_a_finished_run_stays_as_it_is(local_provider: LocalProvider, task: Task, tmp_path: Path) -> None:
    with await aio.run(task, SLOW, provider=local_provider, path=tmp_path / "run", progress=False) as run:
        before = run.rollouts[task.instance_id].row
    with await aio.resume(run, provider=local_provider, progress=False) as again:
        after = again.rollouts[task.instance_id].row
        assert (after.attempt, after.ended_at, len(again.rollouts)) == (before.attempt, before.ended_at, 1)


async def test_a_run_under_way_is_left_alone(local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path) -> None:
    path = tmp_path / "run"
    await stopped_after_one(local_provider, tasks, path)
    with RunWriter(path), pytest.raises(InputError, match="under way"):
        await aio.resume(path, provider=local_provider)
    with held_run(path), pytest.raises(InputError, match="under way"):
        await aio.resume(path, provider=local_provider)
    with await aio.resume(path, provider=local_provider, progress=False) as run:
        assert run.finished


class OwnAgent:
    """An agent of the caller's, which nobody else can make."""

    name, version, tier, needs = "mine", "3", "restart", AgentNeeds()

    async def run(self, episode: Episode) -> AgentEnd:
        await episode.box.exec("sed -i 's/41/42/' src.txt")
        return AgentEnd()


async def test_objects_have_to_be_handed_over_again(local_provider: LocalProvider, task: Task, tmp_path: Path) -> None:
    path = tmp_path / "run"
    run = await aio.run(task, OwnAgent(), provider=local_provider, path=path, progress=False)  # type: ignore[arg-type]
    run.close()
    with pytest.raises(InputError, match=r"agent=\.\.\., provider=\.\.\."):
        await aio.resume(path)
    with pytest.raises(InputError, match=r"provider=\.\.\."):
        await aio.resume(path, agent=OwnAgent())  # type: ignore[arg-type]
    with await aio.resume(path, agent=OwnAgent(), provider=local_provider, progress=False) as again:  # type: ignore[arg-type]
        assert (again.config.agent, again.config.agent_version) == ("mine", "3")
        assert again.rollouts[task.instance_id].row.agent_version == "3"


async def test_masks_that_are_worth_it_are_tried_again_when_asked(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    faulty = FaultyProvider(local_provider.state, {"create": raises(CreateFailed("no"), times=1)})
    run = await aio.run(tasks, "gold", provider=faulty, path=path, limit=1, retries=0, progress=False)
    await faulty.aclose()
    with run:
        (masked,) = run.rollouts.where(status="masked")
    with await aio.resume(path, provider=local_provider, progress=False) as kept:
        assert kept.rollouts[masked].masked
    with await aio.resume(path, provider=local_provider, retry_masked=True, progress=False) as again:
        assert (again.rollouts[masked].status, again.rollouts[masked].attempt) == ("resolved", 2)
        assert [row.attempt for row in again.rollouts.rows() if row.rollout_id != masked] == [1, 1]
        assert again.metrics.masked == 0


async def test_a_run_ends_by_its_deadline_and_can_go_on(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    slow = ScriptedAgent(actions=(Wait(seconds=30),))
    with anyio.fail_after(20):
        run: Run = await aio.run(tasks, slow, provider=local_provider, path=path, progress=False, deadline_s=1)
    with run:
        assert (run.row.end_reason, run.finished) == ("stopped", False)
        assert run.metrics.finished == 0
    with pytest.raises(InputError, match="under way"), RunWriter(path):
        await aio.resume(path, provider=local_provider, progress=False)


async def test_an_imported_run_cannot_go_on(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run").close()
    with pytest.raises(InputError, match="imported"):
        await aio.resume(tmp_path / "run")


async def test_a_run_whose_maker_died_too_early_begins_anew(
    local_provider: LocalProvider, task: Task, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    with RunWriter(path) as writer:
        writer.save("tasks.jsonl", b"{half")
    with pytest.raises(InputError, match="never began"):
        await aio.resume(path)
    (path / "run.json").rename(path / ".run.json.draft-1")
    for journal in (path / "events").iterdir():
        journal.unlink()
    (path / "artifacts" / "tasks.jsonl").unlink()
    (path / "artifacts").rmdir()
    with await aio.run(task, "noop", provider=local_provider, path=path, progress=False) as run:
        assert run.finished
        assert run.tasks.ids == (task.instance_id,)
