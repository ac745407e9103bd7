"""A run that saves itself goes on where it stood: nothing is lost, nothing is done twice."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from swe_sdk import aio
from swe_sdk.agents import ScriptedAgent
from swe_sdk.agents.contract import AgentEnd, Episode, Tier
from swe_sdk.agents.scripted import Exec, Wait
from swe_sdk.checkpoint import store
from swe_sdk.checkpoint.catalog import BadCheckpoint
from swe_sdk.checkpoint.snapshots.sweep import audit, sweep
from swe_sdk.errors import CreateFailed, InputError, SandboxLost
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.checkpoints.view import HeldRollout
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.contract import Box, Snapshot
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.runs.checkpointed import (
    FIX,
    all_saves,
    count_saved,
    done_in,
    events,
    every_step,
    steps,
    stopped_when,
    stopped_when_saved,
    surviving_steps,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
async def built(local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path) -> list[Snapshot]:
    """The environment is there; nothing else may be left at the end."""
    run = await aio.run(next(iter(tasks)), "noop", provider=local_provider, path=tmp_path / "warm", progress=False)
    run.close()
    return await local_provider.snapshots()


async def resumed(path: Path, provider: LocalProvider) -> Run:
    return await aio.resume(path, provider=provider, progress=False)


async def test_it_goes_on_from_its_newest_checkpoint(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path, built: list[Snapshot]
) -> None:
    path = tmp_path / "run"
    await stopped_when_saved(path, tasks, steps(), local_provider, limit=3, checkpoint_every=0.5, budget=60)
    with await aio.open_run(path) as stopped:
        (*_, newest) = stopped.checkpoints.kept
        held = {one.rollout_id: one for one in newest.inspect()}
        assert held
        assert all(one.snapshot for one in held.values() if one.next == "invoke_agent")
    with await resumed(path, local_provider) as run:
        assert run.finished
        for row in run.rollouts.rows():
            assert (row.status, row.attempt) == ("resolved", 2)
            assert done_in(run, row.rollout_id) == every_step(), "each step stands, once"
            if row.rollout_id in held:
                assert row.spent_s >= held[row.rollout_id].budget.spent_s, "no second is spent twice"
                assert row.spent_s + row.remaining_s == pytest.approx(60, abs=0.05)
        started = [one for one in events(path) if one["kind"] == "attempt_started" and one["attempt"] == 2]
        assert {one["rollout_id"] for one in started if one["restored_from"] == newest.id} == set(held)
        assert run.checkpoints.kept == [], "nobody will go on from a finished run"
    assert await local_provider.snapshots() == built


async def test_what_was_done_before_the_checkpoint_is_not_done_again(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    path = tmp_path / "run"
    await stopped_when_saved(path, task, steps(wait_s=0.3), local_provider, checkpoint_every=0.5, budget=60)
    with await aio.open_run(path) as stopped:
        (held,) = stopped.checkpoints.kept[-1].inspect()
        assert held.agent_state is not None
        done = held.agent_state["done"]
    with await resumed(path, local_provider) as run:
        rollout = run.rollouts[task.instance_id]
        again = [step.n for step in rollout.steps if step.attempt == 2]
        assert again[0] == done + 1, "it goes on with the action that was under way"
        assert done_in(run, rollout.id) == every_step()
    assert await local_provider.snapshots() == built


async def test_restores_accumulate(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    """Stopped twice, each time after new checkpoints: the third life has what the first two did and spent."""
    path, agent = tmp_path / "run", steps(count=8, wait_s=0.3)
    await stopped_when_saved(path, task, agent, local_provider, checkpoint_every=0.5, budget=60)
    before = await newest_held(path)
    known = count_saved(path)
    await stopped_when(lambda: count_saved(path) > known, partial(resumed, path, local_provider))
    between = await newest_held(path)
    assert between.budget.spent_s > before.budget.spent_s
    assert (between.agent_state or {})["done"] >= (before.agent_state or {})["done"]
    with await resumed(path, local_provider) as run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.status, rollout.attempt) == ("resolved", 3)
        assert done_in(run, rollout.id) == every_step(8)
        assert rollout.row.spent_s >= between.budget.spent_s
        assert rollout.row.parked_s >= between.budget.parked_s > 0
    assert await local_provider.snapshots() == built


async def newest_held(path: Path) -> HeldRollout:
    with await aio.open_run(path) as run:
        (held,) = run.checkpoints.kept[-1].inspect()
        return held


async def test_what_waits_for_its_turn_is_saved_again(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path, built: list[Snapshot]
) -> None:
    """Restored, and not begun before the next checkpoint: that one holds it as well, though nobody has touched it."""
    path = tmp_path / "run"
    await stopped_when_saved(path, tasks, steps(wait_s=0.5), local_provider, limit=3, checkpoint_every=0.7)
    with await aio.open_run(path) as run:
        first = {one.rollout_id: one for one in run.checkpoints.kept[-1].inspect()}
        known = len(run.checkpoints)
    resume = partial(aio.resume, path, provider=local_provider, progress=False, limit=1)
    await stopped_when(lambda: all_saves(path) > known, resume)
    with await aio.open_run(path) as run:
        newest = run.checkpoints.kept[-1]
        second = {one.rollout_id: one for one in newest.inspect()}
        waiting = [name for name, one in second.items() if one.attempt == 1]
        assert waiting, "one at a time"
        assert all(second[name] == first[name] for name in waiting)
        assert set(first) <= set(second) | {row.rollout_id for row in run.rollouts.rows() if row.status == "resolved"}
    with await resumed(path, local_provider) as run:
        assert run.metrics.resolved == 3
        assert all(done_in(run, name) == every_step() for name in run.rollouts)
    assert await local_provider.snapshots() == built


async def test_the_retention_policy_releases_what_nobody_needs(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    path = tmp_path / "run"
    agent = ScriptedAgent(actions=(Exec(command="echo hi > new.txt"), Wait(seconds=20), FIX))
    await stopped_when_saved(
        path, task, agent, local_provider, saves=5, checkpoint_every=0.2, keep_last=1, keep_every=3
    )
    with await aio.open_run(path) as run:
        kept = [each.id.split("-")[1].lstrip("0") for each in run.checkpoints.kept]
        numbers = [int(each.id.split("-")[1]) for each in run.checkpoints if each.status != "incomplete"]
        expected = {str(number) for number in numbers if number % 3 == 0} | {str(max(numbers))}
        assert set(kept) == expected
        assert {row.checkpoint_id for row in run._index.checkpoints() if row.state == "released"} == {
            each.id for each in run.checkpoints if each.status == "released"
        }
        ids = [each.id for each in run.checkpoints.kept]
        found = await audit(path / "snapshots", local_provider, kept=ids)
        assert found.needed
        assert (found.unneeded, found.missing, found.forgotten) == ((), (), ())
        with pytest.raises(InputError, match="released"):
            next(each for each in run.checkpoints if each.status == "released").inspect()
    await sweep(path / "snapshots", local_provider, kept=())
    assert await local_provider.snapshots() == built


class Fragile(ScriptedAgent):
    """Its sandbox is lost in the second attempt, when there are two newer checkpoints than that it goes on from."""

    async def run(self, episode: Episode) -> AgentEnd:
        if episode.attempt != 2:
            return await super().run(episode)
        path, known = FRAGILE_RUN[0], all_saves(FRAGILE_RUN[0])
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:

                async def lose() -> None:
                    while all_saves(path) < known + 2:
                        await anyio.sleep(0.02)
                    scope.cancel()

                group.start_soon(lose)
                await super().run(episode)
        raise SandboxLost("it was switched off")


FRAGILE_RUN: list[Path] = []


async def test_a_restored_rollout_that_is_lost_goes_on_from_what_is_kept_by_then(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    """The snapshot that it began with went with its checkpoint: the third attempt stands on the newest one."""
    path = tmp_path / "run"
    FRAGILE_RUN[:] = [path]
    agent = Fragile(actions=steps(count=12, wait_s=0.25).actions)
    await stopped_when_saved(path, task, agent, local_provider, checkpoint_every=0.3, keep_last=1, budget=60)
    with await aio.resume(path, agent=agent, provider=local_provider, progress=False) as run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.status, rollout.attempt) == ("resolved", 3), rollout.line
        assert done_in(run, rollout.id) == every_step(12), "each step stands, once"
        second, third = (each.restored_from for each in rollout.attempts[1:])
        assert second != third
        assert third is not None
        assert surviving_steps(path, rollout.id) == list(range(1, 26))
        assert rollout.row.spent_s + (rollout.row.remaining_s or 0) == pytest.approx(60, abs=0.05)
    assert await local_provider.snapshots() == built


class Heedless(ScriptedAgent):
    """Takes its time before its first boundary, and says that it can only start over."""

    tier: ClassVar[Tier] = "restart"

    async def run(self, episode: Episode) -> AgentEnd:
        await episode.box.exec("sleep 1.5")
        return await super().run(episode)


async def test_an_agent_that_can_only_start_over_holds_nothing_up(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    path = tmp_path / "run"
    agent = Heedless(actions=(FIX,))
    with await aio.run(task, agent, provider=local_provider, path=path, progress=False, checkpoint_every=0.4) as run:
        assert run.rollouts[task.instance_id].status == "resolved"
        restarts = [each.restarts for each in run.checkpoints if each.restarts]
        assert restarts
        reasons = {reason for each in restarts for reason in each.values()}
        assert "its agent is at work, and can only start over" in reasons
        assert all(each.phases_s["prepare"] < 1 for each in run.checkpoints if each.restarts)
    assert await local_provider.snapshots() == built


async def test_a_damaged_checkpoint_is_skipped(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    path = tmp_path / "run"
    await stopped_when_saved(path, task, steps(), local_provider, saves=2, checkpoint_every=0.4, keep_last=2)
    with await aio.open_run(path) as run:
        older, newest = run.checkpoints.kept[-2:]
        (held,) = newest.inspect()
    await local_provider.delete_snapshot(held.snapshot or "")
    with pytest.warns(BadCheckpoint, match=f"{newest.id} is skipped"):
        run = await resumed(path, local_provider)
    with run:
        assert done_in(run, f"{task.instance_id}.0") == every_step()
        started = [one for one in events(path) if one["kind"] == "attempt_started"]
        assert started[-1]["restored_from"] == older.id
    assert await local_provider.snapshots() == built


class Stubborn(LocalProvider):
    """One of its sandboxes cannot be frozen."""

    async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
        if box.spec.labels.get("task") == "tiny__answer-1":
            raise CreateFailed("it does not hold still")
        return await super().snapshot(box, snapshot_id=snapshot_id)


async def test_a_sandbox_that_cannot_be_frozen_does_not_keep_the_others_from_being_saved(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    (await aio.run(next(iter(tasks)), "noop", provider=local_provider, path=tmp_path / "warm", progress=False)).close()
    provider = Stubborn(local_provider.state)
    try:
        run = await aio.run(
            list(tasks)[:2], steps(), provider=provider, path=tmp_path / "run", limit=2, checkpoint_every=0.2,
            progress=False,
        )  # fmt: skip
    finally:
        await provider.aclose()
    with run:
        assert run.metrics.resolved == 2
        others = [one for one in run.checkpoints if "tiny__answer-1.0" in one.restarts and one.snapshots]
        assert others, [one.restarts for one in run.checkpoints]
        assert "does not hold still" in others[0].restarts["tiny__answer-1.0"]


async def test_the_state_of_an_agent_is_never_restored_without_its_files(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    path = tmp_path / "run"
    await stopped_when_saved(path, task, steps(), local_provider, checkpoint_every=0.4, keep_last=1)
    with await aio.open_run(path) as run:
        (newest,) = run.checkpoints.kept
    place = store.folder(newest.path, "resources", "sandboxes")
    told = store.read_manifest(place)
    for file in place.iterdir():
        file.unlink()
    digest = store.write_records(place, b"")  # whole, and without the sandbox
    changes = {"records_file": f"records-{digest}.jsonl", "records_sha256": digest, "record_count": 0}
    store.write_manifest(place, told.model_copy(update=changes))
    with await resumed(path, local_provider) as run:
        assert run.rollouts[task.instance_id].row.restored_from is None
        assert done_in(run, f"{task.instance_id}.0") == every_step()
    assert await local_provider.snapshots() == built


async def test_without_checkpoints_it_starts_over(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot]
) -> None:
    path = tmp_path / "run"
    await stopped_when_saved(path, task, steps(), local_provider, checkpoint_every=0.4)
    shutil.rmtree(path / "checkpoints")
    with await resumed(path, local_provider) as run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.status, done_in(run, rollout.id)) == ("resolved", every_step())
        assert [step.n for step in rollout.steps if step.attempt == 2] == list(range(1, 12))
    assert await local_provider.snapshots() == built


async def test_who_is_late_is_held_as_before(
    local_provider: LocalProvider, task: Task, tmp_path: Path, built: list[Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long command holds nobody up for long, and what was saved of its rollout is not lost by the next checkpoint."""
    monkeypatch.setattr("swe_sdk.runs.checkpoints.census.PATIENCE_S", 0.2)
    path = tmp_path / "run"
    quick = (Exec(command="echo step 1 >> steps.txt"), Wait(seconds=1.2))
    agent = ScriptedAgent(actions=(*quick, Exec(command="sleep 3; echo step 2 >> steps.txt"), FIX))
    start = partial(aio.run, task, agent, provider=local_provider, path=path, keep_last=1, progress=False)
    await stopped_when(lambda: late_saves(path) >= 2, partial(start, checkpoint_every=0.5))
    with await aio.open_run(path) as run:
        (held,) = run.checkpoints.kept[-1].inspect()
        assert held.agent_state is not None
        assert held.agent_state["done"] == 1, "the boundary before the long command"
        assert run.checkpoints.kept[-1].phases_s["prepare"] < 2
    with await resumed(path, local_provider) as run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.status, done_in(run, rollout.id)) == ("resolved", every_step(2))
        assert [step.n for step in rollout.steps if step.attempt == 2] == [2, 3, 4]
    assert await local_provider.snapshots() == built


def late_saves(path: Path) -> int:
    """Checkpoints that hold the same as the one before."""
    told = events(path) if path.is_dir() else []
    complete = {one["checkpoint_id"] for one in told if one["kind"] == "checkpoint_saved" and one["snapshots"]}
    spent = [one["spent_s"] for one in told if one["kind"] == "checkpoint_rollout" and one["checkpoint_id"] in complete]
    return sum(before == after for before, after in pairwise(spent))
