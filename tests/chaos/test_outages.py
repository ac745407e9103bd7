"""An engine that is away for a while: what would begin meanwhile begins when it is back."""

from __future__ import annotations

import signal
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.agents.gold import GoldAgent
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.task import Task
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.rollouts.verifier import LocalVerifier
from swe_sdk.sandbox.outage import outlast_outage
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from tests.chaos.docker_kill_points import Place

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]
_AWAY_S = 6.0
"""Longer than the provider itself tries to make a box."""


@pytest.fixture
def task() -> Task:
    """Its environment takes nothing from a package index."""
    return swe.load_tasks("mini")["mini__fairsplit-1"]


async def test_grades_and_rollouts_begin_when_the_engine_is_back(place: Place, task: Task) -> None:
    provider = DockerProvider(base_url=place.engine.url, base_image=place.image, state=place.state)
    try:
        assert (await aio.grade(task, task.grading.gold_patch, provider=provider)).resolved
        place.engine.signal(signal.SIGKILL)
        await _patience_has_an_end(provider)
        await _what_waits_begins_in_the_end(place, task, provider)
    finally:
        await provider.aclose()


async def _patience_has_an_end(provider: DockerProvider) -> None:
    said: list[str] = []
    began = time.monotonic()
    await outlast_outage(provider, patience_s=1.0, on_progress=said.append)
    assert 0.9 < time.monotonic() - began < 5.0
    assert [line.partition(",")[0] for line in said] == ["docker does not answer"]


async def _what_waits_begins_in_the_end(place: Place, task: Task, provider: DockerProvider) -> None:
    said: list[str] = []
    found: dict[str, Outcome] = {}
    grade = partial(aio.grade, task, task.grading.gold_patch, provider=provider, retries=0)

    async def roll() -> Outcome:
        verifier = LocalVerifier(provider=provider, retries=0)
        settings = RolloutSettings(retries=0)
        result = await run_rollout(task, GoldAgent(), provider=provider, settings=settings, verifier=verifier)
        return result.outcome

    async def keep(name: str, work: Callable[[], Awaitable[Outcome]]) -> None:
        found[name] = await work()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep, "grade", partial(grade, on_progress=said.append))
        tasks.start_soon(keep, "rollout", roll)
        await anyio.sleep(_AWAY_S)
        assert found == {}
        await to_thread.run_sync(place.engine.start)
    assert {name: (one.status, one.mask) for name, one in found.items()} == {
        "grade": ("resolved", None),
        "rollout": ("resolved", None),
    }
    assert [line.partition(",")[0] for line in said] == ["docker does not answer", "docker answers again"]


async def test_an_engine_that_was_never_there_is_not_waited_for(task: Task, tmp_path: Path) -> None:
    provider = DockerProvider(base_url=f"unix://{tmp_path}/nobody", base_image="debian", state=tmp_path)
    with anyio.fail_after(30):
        outcome = await aio.grade(task, task.grading.gold_patch, provider=provider)
    assert outcome.mask is not None
    assert outcome.mask.kind == "provider_unavailable"
