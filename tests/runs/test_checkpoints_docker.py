"""A run on Docker saves itself and goes on: the agent's container is committed, and the next one stands on that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swe_sdk import aio
from swe_sdk.model.task import Task
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.runs.checkpointed import done_in, events, every_step, steps, stopped_when_saved
from tests.sandbox.docker.images import debian_image, need_engine

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.fixture
async def docker(tmp_path: Path) -> AsyncIterator[DockerProvider]:
    need_engine()
    provider = DockerProvider(state=tmp_path / "state", base_image=debian_image())
    yield provider
    assert provider.leases.mine() == []
    await provider.aclose()


async def test_it_goes_on_in_a_container_of_its_snapshot(docker: DockerProvider, task: Task, tmp_path: Path) -> None:
    built, path = await aio.prepare(task, provider=docker), tmp_path / "run"
    agent = steps(wait_s=0.8)
    await stopped_when_saved(path, task, agent, docker, checkpoint_every=0.7, budget=300)
    with await aio.open_run(path) as run:
        (held,) = run.checkpoints.kept[-1].inspect()
        assert (held.next, held.snapshot is not None) == ("invoke_agent", True)
    with await aio.resume(path, provider=docker, progress=False) as run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.status, rollout.attempt) == ("resolved", 2), rollout.line
        assert done_in(run, rollout.id) == every_step()
        again = [step.n for step in rollout.steps if step.attempt == 2]
        assert again[0] == (held.agent_state or {"done": 0})["done"] + 1
        assert rollout.row.spent_s >= held.budget.spent_s
    taken = {one["snapshot_id"] for one in events(path) if one["kind"] == "snapshot_taken"}
    there = {snapshot.id for snapshot in await docker.snapshots()}  # others may be at work with the same engine
    assert (taken & there, held.snapshot in taken) == (set(), True)
    await docker.delete_snapshot(built.snapshot or "")
