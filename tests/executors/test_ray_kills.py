"""Grades and runs on a real cluster, of which a worker is killed in the middle."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.executors.contract import Job, Pool
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.model.task import Task
from swe_sdk.testing.executor_work import COUNT, ECHO
from tests.executors.engines import RayCluster
from tests.grading.tiny import GOLD, WRONG

pytestmark = pytest.mark.anyio


@pytest.fixture
def slow(tasks: swe.TaskSet) -> swe.TaskSet:
    """Tasks whose tests take long enough to be killed in the middle."""
    return swe.TaskSet([_slow(task) for task in tasks], name="slow")


def _slow(task: Task) -> Task:
    grading = task.grading.model_copy(update={"test_command": f"sleep 4; {task.grading.test_command}"})
    return task.model_copy(update={"grading": grading})


async def kill_one(pool: Pool, begun: Callable[[], bool]) -> None:
    """SIGKILL to a worker, once something is under way."""
    with anyio.fail_after(120):
        while not begun():
            await anyio.sleep(0.05)
    await anyio.sleep(1)
    os.kill(pool.nodes()[0].pid, signal.SIGKILL)


async def two_workers(pool: Pool) -> None:
    with anyio.fail_after(120):
        while len(pool.nodes()) < 2:
            await anyio.sleep(0.05)


async def test_every_grade_is_right_after_a_kill(ray_cluster: RayCluster, slow: swe.TaskSet, tmp_path: Path) -> None:
    patches = dict(zip(slow.ids, [GOLD, WRONG, b""], strict=True))
    results = tmp_path / "results"
    async with RayExecutor().open() as pool, anyio.create_task_group() as tasks:
        await two_workers(pool)
        tasks.start_soon(kill_one, pool, lambda: len(list(results.glob("artifacts/*/*/test.log"))) >= 2)
        outcomes = await swe.aio.grade_many(
            slow, patches, executor=pool, provider="local", results=results, progress=False
        )
    assert [outcome.status for outcome in outcomes] == ["resolved", "unresolved", "unresolved"]
    earlier = [mask for outcome in outcomes for mask in outcome.evidence.get("earlier_workers", [])]
    assert [mask["kind"] for mask in earlier] == ["lost_worker"]
    assert "died" in earlier[0]["reason"]
    assert len((results / "outcomes.jsonl").read_text().splitlines()) == 3


async def test_a_run_goes_on_after_a_kill(ray_cluster: RayCluster, slow: swe.TaskSet, tmp_path: Path) -> None:
    path = tmp_path / "run"
    async with RayExecutor().open() as pool, anyio.create_task_group() as tasks:
        await two_workers(pool)
        tasks.start_soon(kill_one, pool, lambda: len(list(path.glob("rollouts/*/1/verify-1/test.log"))) >= 2)
        run = await swe.aio.run(slow, "gold", executor=pool, provider="local", path=path, progress=False)
    with run:
        assert run.row.counts == {"resolved": 3}
        assert (run.finished, run.row.alive) == (True, False)
        (again,) = [each for each in run.rollouts.values() if each.attempt == 2]
        assert [attempt.mask_kind for attempt in again.attempts] == ["lost_worker", None]
        assert again.masks[0].mask.stage == "verify", "the journal of the dead worker tells how far it came"
        assert len(list((path / "events").iterdir())) == 4, "of us, of two workers, and of the one that came after"


async def test_nodes_without_our_file_system_have_their_files_copied(
    ray_cluster: RayCluster, tasks: swe.TaskSet, tmp_path: Path
) -> None:
    executor = RayExecutor(shared=False)
    async with executor.open() as pool:
        outcomes = await swe.aio.grade_many(
            tasks, {tasks.ids[0]: GOLD}, executor=pool, provider="local", results=tmp_path / "results", progress=False
        )
        run = await swe.aio.run(
            tasks[:1], "gold", executor=pool, provider="local", path=tmp_path / "run", progress=False
        )
    for state in ray_cluster.states:
        shutil.rmtree(state / "carried", ignore_errors=True)
    (outcome,) = outcomes
    assert Path(outcome.artifacts["log"]).is_relative_to(tmp_path / "results")
    assert "PASSED check::answer" in Path(outcome.artifacts["log"]).read_text()
    with run:
        (rollout,) = run.rollouts.values()
        assert (rollout.status, run.row.alive) == ("resolved", False)
        assert "PASSED check::answer" in rollout.log("verify-1/test.log").tail(10)
        assert rollout.patch.exists
        assert [stage.stage for stage in rollout.stages][-1] == "return"


async def test_who_gave_up_waiting_for_an_equal_job_holds_nobody_up(ray_cluster: RayCluster, tmp_path: Path) -> None:
    file = tmp_path / "count"
    job = Job(id="job", work=COUNT, input={"file": str(file), "seconds": 30.0}, key=str(file))
    quick = job.model_copy(update={"input": {"file": str(file), "seconds": 0.0}})
    async with RayExecutor().open() as one, RayExecutor().open() as two:
        async with anyio.create_task_group() as first:
            first.start_soon(one.run, job)
            with anyio.fail_after(120):
                while not file.exists():
                    await anyio.sleep(0.05)
            with anyio.move_on_after(1):
                await two.run(quick)
            first.cancel_scope.cancel()
        with anyio.fail_after(20):
            assert (await two.run(quick)).state == "done"
            assert (await one.run(quick)).state == "done"


async def test_where_no_node_can_work_jobs_are_lost_and_say_why(ray_cluster: RayCluster) -> None:
    async with RayExecutor(resource="no_such_resource", patience_s=0.5).open() as pool:
        result = await pool.run(Job(id="job", work=ECHO))
    assert result.state == "lost"
    assert result.error is not None
    assert "no worker for 0.5 s" in result.error.message
