"""A pool is of one event loop and of one block: whoever uses it elsewhere or later is told so, and never waits."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.errors import InputError
from swe_sdk.executors.contract import Executor, Job, JobResult
from swe_sdk.executors.local import LocalExecutor
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.slurm.executor import SlurmExecutor
from swe_sdk.testing.executor_work import ECHO
from tests.executors.engines import RayCluster, need_package

pytestmark = pytest.mark.anyio


async def test_a_pool_of_another_loop_is_refused_and_one_that_is_closed(tmp_path: Path) -> None:
    tasks = swe.load_tasks("mini")[:1]
    async with LocalExecutor(slots=1).open() as pool:
        with pytest.raises(InputError, match="open in another event loop"):
            swe.grade_many(tasks, "gold", executor=pool, results=tmp_path / "r", progress=False)
        with pytest.raises(InputError, match="open in another event loop"):
            swe.run(tasks, "gold", executor=pool, path=tmp_path / "run", progress=False)
    with pytest.raises(InputError, match="the pool is closed"):
        await swe.aio.run(tasks, "gold", executor=pool, path=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists(), "nothing is made before that is known"


async def test_who_waits_for_a_pool_of_slurm_that_closes_is_told(tmp_path: Path) -> None:
    need_package("submitit")
    await _closed_while_waiting(SlurmExecutor(folder=tmp_path, cluster="local", gather_s=60))


async def test_who_waits_for_a_pool_of_ray_that_closes_is_told(ray_cluster: RayCluster) -> None:
    await _closed_while_waiting(RayExecutor(resource="no_such_resource"))


async def _closed_while_waiting(executor: Executor) -> None:
    """One caller outlives the block, and another one comes after it."""
    results: list[JobResult] = []

    async def ask() -> None:
        results.append(await pool.run(Job(id="job", work=ECHO)))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            async with executor.open() as pool:
                tasks.start_soon(ask)
                await anyio.sleep(0.2)
        await ask()
    assert [result.state for result in results] == ["lost"] * 2
    assert {result.error and result.error.message for result in results} == {"the pool is closed"}
