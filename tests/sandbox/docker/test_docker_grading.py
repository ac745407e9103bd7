"""The same patches are worth the same on docker as in local boxes, to the last test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.model.outcome import Outcome
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider

pytestmark = pytest.mark.anyio
TASKS = ("mini__fairsplit-1", "mini__tokenbucket-1")
"""Their environments take nothing from a package index."""


@pytest.fixture(scope="module", autouse=True)
def nothing_built_is_left(docker_state: Path) -> Iterator[None]:
    yield
    records = "".join(path.read_text() for path in (docker_state / "docker/environments").glob("*.json"))

    async def delete() -> None:
        provider = DockerProvider(state=docker_state)
        for snapshot in await provider.snapshots():
            if snapshot.id in records:
                await provider.delete_snapshot(snapshot.id)
        await provider.aclose()

    anyio.run(delete)


@pytest.mark.parametrize("name", TASKS)
async def test_verdicts_are_those_of_local_boxes(
    docker_provider: DockerProvider, local_provider: LocalProvider, name: str
) -> None:
    task = swe.load_tasks("mini")[name]
    assert task.grading.wrong_patch is not None
    for patch in (task.grading.gold_patch, task.grading.wrong_patch, None):
        there, here = [await aio.grade(task, patch, provider=each) for each in (docker_provider, local_provider)]
        assert _told(there) == _told(here)
        assert there.status == ("resolved" if patch == task.grading.gold_patch else "unresolved")


def _told(outcome: Outcome) -> dict[str, Any]:
    told = outcome.model_dump(include={"status", "reward", "mask", "tests"})
    return {**told, "applied": outcome.patch.applied, "rung": outcome.patch.rung}


async def test_tests_that_fill_the_memory_and_take_the_box_with_them_are_unresolved(
    docker_provider: DockerProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission that has its supervisor killed earns no mask."""
    task = swe.load_tasks("mini")["mini__fairsplit-1"]
    bomb = (
        "echo 1000 > /proc/1/oom_score_adj; (for i in $(seq 40);"
        " do python3 -c 'import time; x = bytearray(20_000_000); time.sleep(60)' & done; wait) & sleep 20;"
    )
    grading = task.grading.model_copy(update={"test_command": f"{bomb} {task.grading.test_command}"})
    limited = task.model_copy(update={"grading": grading})
    real = docker_provider.create

    async def create_small(spec: Any) -> Any:
        return await real(spec.model_copy(update={"limits": spec.limits.model_copy(update={"memory_mib": 128})}))

    monkeypatch.setattr(docker_provider, "create", create_small)
    assert limited.grading.gold_patch is not None
    outcome = await aio.grade(limited, limited.grading.gold_patch, provider=docker_provider)
    assert (outcome.status, outcome.mask) == ("unresolved", None), outcome
    assert "memory" in outcome.reason
