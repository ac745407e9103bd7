"""Nodes that cannot work, several pools of one program, and how a program on Ray is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.executors.ray import node as node_module
from swe_sdk.executors.ray.executor import RayExecutor, _Membership
from swe_sdk.executors.ray.node import RayNode
from tests.executors.engines import OBJECT_STORE_BYTES, RayCluster

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]


async def test_a_node_without_sandboxes_takes_no_jobs_from_the_others(
    ray_cluster: RayCluster, tasks: swe.TaskSet, tmp_path: Path
) -> None:
    """It would be done with each of them at once, and so take them all."""
    state = tmp_path / "no-folder"
    state.write_text("")
    ill = ray_cluster.cluster.add_node(
        num_cpus=2, object_store_memory=OBJECT_STORE_BYTES, env_vars={"SWE_SDK_STATE": str(state)}
    )
    given = {"provider": "local", "results": tmp_path / "results", "progress": False}
    try:
        async with RayExecutor().open() as pool:
            with anyio.fail_after(60):
                while len(pool.nodes()) < 3:
                    await anyio.sleep(0.05)
            outcomes = await swe.aio.grade_many(tasks, "gold", executor=pool, **given)
            states = {each.state for each in pool.nodes()}
    finally:
        ray_cluster.cluster.remove_node(ill)
    assert [outcome.status for outcome in outcomes] == ["resolved"] * 3
    assert states == set(map(str, ray_cluster.states))


async def test_what_keeps_a_worker_from_serving_is_told_to_who_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def no_worker(*_: object, **__: object) -> AsyncIterator[None]:
        raise RuntimeError("there is no home directory")
        yield

    monkeypatch.setattr(node_module, "open_worker", no_worker)
    node = RayNode("n", 1, shared=True)

    async def serve() -> None:
        with pytest.raises(RuntimeError):
            await node.serve()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        with anyio.fail_after(5), pytest.raises(RuntimeError, match="no home directory"):
            await node.start()


class FakeRay(SimpleNamespace):
    """As much of Ray as joining takes; ``init`` twice is what Ray itself refuses."""

    def __init__(self) -> None:
        super().__init__(joined=False, log=[])

    def is_initialized(self) -> bool:
        return self.joined

    def init(self, **_: object) -> None:
        assert not self.joined
        threading.Event().wait(0.05)
        self.joined = True
        self.log.append("init")

    def shutdown(self) -> None:
        self.joined = False
        self.log.append("shutdown")


def test_the_first_pool_joins_and_the_last_one_leaves() -> None:
    ray, ours = FakeRay(), _Membership()
    threads = [threading.Thread(target=ours.enter, args=(ray, "local")) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ours.leave(ray)
    ours.leave(ray)
    assert (ray.joined, ray.log) == (True, ["init"])
    ours.leave(ray)
    assert (ray.joined, ray.log) == (False, ["init", "shutdown"])
    ray.init()
    assert not ours.enter(ray, "local"), "what the program has joined by itself is not ours to leave"


STOPPED = """
import os, signal, sys, anyio
from swe_sdk.cli_stop import Stopped, run_stoppable
from swe_sdk.executors.contract import Job
from swe_sdk.executors.ray.executor import RayExecutor
from swe_sdk.testing.executor_work import ECHO

async def until_stopped():
    async with RayExecutor(address=sys.argv[1]).open() as pool:
        print((await pool.run(Job(id="job", work=ECHO))).state, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep(60)

try:
    run_stoppable(until_stopped)
except Stopped as stopped:
    print(stopped)
"""


def test_a_program_that_is_terminated_says_so_in_our_words_alone(ray_cluster: RayCluster) -> None:
    command = [sys.executable, "-c", STOPPED, ray_cluster.cluster.address]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100)
    assert done.stdout.split("\n") == ["done", "stopped by SIGTERM", ""], done.stderr
    assert done.stderr == "swe-sdk: closing sandboxes; told once more, it ends at once\n"
