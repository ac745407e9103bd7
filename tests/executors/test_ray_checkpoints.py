"""A node of a real cluster dies in the middle of a run that saves itself."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.executors.contract import NodeInfo, Pool
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.executors.worker import reap_here
from swe_sdk.runs.checkpoints.snapshots import run_snapshots
from swe_sdk.sandbox.registry import named_provider
from tests.executors.engines import RayCluster
from tests.executors.two_nodes import BUDGET_S, STEPS, all_is_right, attempts, goes_on, held_by, left_of_run
from tests.leaks import traces_of
from tests.runs.checkpointed import events, steps, stopped_when

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
ON_TWO = RayExecutor(slots=2, drain_s=5.0)  # a dead node does not answer, and Ray tells late that it is gone


@pytest.fixture
def four(task: swe.Task) -> swe.TaskSet:
    """As many rollouts as the cluster has places."""
    return swe.TaskSet([task.model_copy(update={"instance_id": f"tiny__answer-{n}"}) for n in range(4)], name="four")


def saved_by_two(path: Path, *, copied: bool) -> bool:
    """Whether both nodes have saved agents at work, and (with ``copied``) the copies are there."""
    held = held_by(path) if path.is_dir() else {}
    done = {one["snapshot_id"] for one in events(path) if one["kind"] == "snapshot_copied"} if held else set()
    return len({one["node"] for one in held.values() if not copied or one["snapshot_id"] in done}) == 2 and (
        len(held) == 4
    )


async def two_workers(pool: Pool) -> None:
    with anyio.fail_after(120):
        while len(pool.nodes()) < 2:
            await anyio.sleep(0.05)


@pytest.mark.parametrize("shared", [False, True], ids=["on its nodes", "copied to shared storage"])
async def test_a_node_dies_and_the_run_is_resumed(
    ray_cluster: RayCluster, four: swe.TaskSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    path, share = tmp_path / "run", tmp_path / "share"
    nodes: list[NodeInfo] = []
    given = {"snapshot_share": str(share)} if shared else {}

    async def begin() -> None:
        async with ON_TWO.open() as pool:
            await two_workers(pool)
            nodes.extend(pool.nodes())
            await swe.aio.run(
                *(four, steps(STEPS, 0.8)),
                **{"executor": pool, "provider": "local", "path": path, "progress": False, "budget": BUDGET_S},
                **{"checkpoint_every": 0.5, "keep_last": 1, "checkpoint_wait_s": 4.0, **given},
            )

    def dies() -> bool:
        if not saved_by_two(path, copied=shared):
            return False
        ray_cluster.kill(Path(nodes[0].state))
        return True

    await stopped_when(dies, begin)
    dead, alive = nodes
    held, copied = held_by(path), {one["snapshot_id"] for one in events(path) if one["kind"] == "snapshot_copied"}
    assert {one["node"] for one in held.values()} == {dead.id, alive.id}
    with await swe.aio.resume(path, executor=ON_TWO, progress=False) as run:
        all_is_right(run, path)
        for name, one in held.items():
            if one["node"] == alive.id or one["snapshot_id"] in copied:
                goes_on(run, path, one)
            else:
                began = attempts(path)[name]
                assert began["restored_from"] is None
                assert f"the node {dead.id} was not there within 4 s" in began["restart_reason"]
        lost = [name for name, one in held.items() if one["node"] == dead.id]
        assert lost
        assert all(attempts(path)[name]["restored_from"] for name in lost) is shared
    assert left_of_run(Path(alive.state)) == []
    assert traces_of(Path(alive.state)).get("boxes", []) == []
    assert not share.exists() or list(share.iterdir()) == []
    ray_cluster.mend()
    await tidied(path, Path(dead.state), monkeypatch)


async def test_a_worker_dies_and_its_node_goes_on(ray_cluster: RayCluster, four: swe.TaskSet, tmp_path: Path) -> None:
    path = tmp_path / "run"
    given = {"provider": "local", "path": path, "progress": False, "budget": BUDGET_S, "checkpoint_every": 0.5}
    killed: list[NodeInfo] = []

    async def kill_one(pool: Pool) -> None:
        while not saved_by_two(path, copied=False):
            await anyio.sleep(0.05)
        killed.append(pool.nodes()[0])
        os.kill(killed[0].pid, signal.SIGKILL)

    async with ON_TWO.open() as pool, anyio.create_task_group() as tasks:
        await two_workers(pool)
        tasks.start_soon(kill_one, pool)
        run = await swe.aio.run(four, steps(STEPS, 0.8), executor=pool, **given)  # type: ignore[arg-type]
    with run:
        all_is_right(run, path)
        again = [row for row in run.rollouts.values() if row.attempt == 2]
        assert len(again) == 2, "all that the dead worker had, and nothing else"
        for rollout in again:
            assert [each.mask_kind for each in rollout.attempts] == ["lost_worker", None]
            assert rollout.row.restored_from, "its node has what it had saved"
            assert rollout.row.total_s == BUDGET_S
    for state in ray_cluster.states:
        assert left_of_run(state) == []


async def tidied(path: Path, state: Path, patch: pytest.MonkeyPatch) -> None:
    """The node is back: what it had is reaped there, and nothing is left."""
    patch.setenv("SWE_SDK_STATE", str(state))
    await reap_here()
    await run_snapshots(path, reap=True)
    await named_provider("local").aclose()
    assert left_of_run(state) == []
    assert traces_of(state).get("boxes", []) == []
    with await swe.aio.open_run(path) as run:
        assert len(run.snapshots.troubled) == 0
