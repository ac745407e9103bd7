"""A resources server that is told to stop while the engine of its sandboxes is away."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.checkpoint.messages import EpisodeId
from swe_sdk.errors import ProviderUnavailable, SandboxClosed
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.server.gym.resources_app import ResourcesServer
from swe_sdk.server.gym.settings import ResourcesSettings
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.tasks import FoundTask
from swe_sdk.testing import FakeProvider
from tests.rollouts.world import make_task

pytestmark = pytest.mark.anyio


class Away(FakeProvider):
    """It has answered before, and does not now."""

    async def ping(self) -> None:
        raise ProviderUnavailable("nobody is there")


async def test_who_waits_for_an_engine_does_not_hold_up_the_end_of_its_server(tmp_path: Path) -> None:
    task = make_task()
    told = ResourcesSettings(state_dir=tmp_path)
    server = ResourcesServer(ServerSettings(drain_s=0.1), TaskSet([task]), Away(), sessions=told)
    ended: list[str] = []

    async def seed() -> None:
        with pytest.raises(SandboxClosed), server.service.admission.post():
            await server.sessions.seed(EpisodeId(rollout_id="r", attempt=0), FoundTask(task, "loaded"), None)
        ended.append("seed")

    async with server.participant, anyio.create_task_group() as tasks:
        tasks.start_soon(seed)
        await anyio.sleep(0.1)
        assert ended == []
        with anyio.fail_after(10):
            await server.drain(stop=anyio.Event())
    assert ended == ["seed"]
