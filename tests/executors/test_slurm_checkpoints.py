"""A shard of Slurm dies in the middle of a run that saves itself: what is submitted again goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.executors.contract import Pool
from swe_sdk.executors.slurm.executor import SlurmExecutor
from tests.executors.engines import need_package, parent_of
from tests.executors.two_nodes import BUDGET_S, STEPS, all_is_right, held_by, left_of_run
from tests.runs.checkpointed import steps

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def test_what_is_submitted_again_goes_on_from_its_checkpoint(tasks: swe.TaskSet, tmp_path: Path) -> None:
    need_package("submitit")
    path = tmp_path / "run"
    given = {"provider": "local", "path": path, "progress": False, "budget": BUDGET_S, "checkpoint_every": 0.4}

    async def kill_the_shard(pool: Pool) -> None:
        while not path.is_dir() or len(held_by(path)) < 3:
            await anyio.sleep(0.05)
        pid = pool.nodes()[0].pid
        for each in (parent_of(pid), pid):
            os.kill(each, signal.SIGKILL)

    executor = SlurmExecutor(folder=tmp_path / "slurm", cluster="local", shards=1, slots=3, poll_s=0.3)
    async with executor.open() as pool, anyio.create_task_group() as group:
        group.start_soon(kill_the_shard, pool)
        run = await swe.aio.run(tasks, steps(STEPS, 0.5), executor=pool, **given)  # type: ignore[arg-type]
    with run:
        all_is_right(run, path)
        for rollout in run.rollouts.values():
            assert [each.mask_kind for each in rollout.attempts] == ["lost_worker", None]
            assert rollout.row.restored_from, "it went on"
            assert rollout.row.spent_s + (rollout.row.remaining_s or 0) == pytest.approx(BUDGET_S, abs=0.05)
    assert left_of_run(Path(os.environ["SWE_SDK_STATE"])) == []


async def test_a_shard_that_is_started_again_goes_on(tasks: swe.TaskSet, tmp_path: Path) -> None:
    """As after a preemption: Slurm starts the same shard with the same orders once more, and its driver knows nothing
    of it."""
    need_package("submitit")
    path = tmp_path / "run"
    given = {"provider": "local", "path": path, "progress": False, "budget": BUDGET_S, "checkpoint_every": 0.4}
    executor = SlurmExecutor(folder=tmp_path / "slurm", cluster="local", shards=1, slots=3, poll_s=0.3)

    async def preempt(pool: Pool) -> None:
        while not path.is_dir() or len(held_by(path)) < 3:
            await anyio.sleep(0.05)
        os.kill(pool.nodes()[0].pid, signal.SIGUSR2)

    async with executor.open() as pool, anyio.create_task_group() as group:
        group.start_soon(preempt, pool)
        run = await swe.aio.run(tasks, steps(STEPS, 0.5), executor=pool, **given)  # type: ignore[arg-type]
    with run:
        all_is_right(run, path)
        for rollout in run.rollouts.values():
            assert [each.mask_kind for each in rollout.attempts] == [None, None], "no job was lost"
            assert rollout.row.restored_from
    assert left_of_run(Path(os.environ["SWE_SDK_STATE"])) == []
