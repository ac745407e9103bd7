"""Agents x providers x families: the same patch comes to the same outcome, whoever makes it and wherever.

All of it takes some minutes. On CI a third is tried each day, another one the next: every family and every provider,
but not with one another.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.agents.gold import GoldAgent
from swe_sdk.agents.registry import make_agent
from swe_sdk.agents.scripted import Exec, ScriptedAgent
from swe_sdk.model.task import Task
from swe_sdk.recipes.registry import recipe_names
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.agents.dialects import apply
from tests.agents.harness_lab import close_lab
from tests.agents.rolling import SETTINGS, roll_harness
from tests.agents.tasks import gold, mini_task
from tests.sandbox.apptainer.images import apptainer, compiler_sif
from tests.sandbox.docker.images import tools_image
from tests.shared import need_program

DAY = int(os.environ.get("SWE_SDK_SEED") or time.time() // 86400)
PROVIDERS = ("local", "docker", "apptainer")
FAMILIES = {
    "swe-bench": "mini__fairsplit-1",
    "swe-bench-ext": "mini__spans-1",
    "swe-bench-multilingual": "mini__expandtabs-1",
    "nv-internal-1": "mini__linewrap-1",
    "swe-rebench": "mini__countdown-1",
    "r2e-gym": "mini__tally-1",
}
"""A task of each: that of the multilingual one is in C, the others are in Python."""
HARNESSES = ("mini-swe-agent", "opencode")


def cells() -> list[tuple[str, str]]:
    """Provider and family: all pairs, or on CI those whose day it is."""
    every = [(p, f) for p in range(len(PROVIDERS)) for f in range(len(FAMILIES))]
    if os.environ.get("CI") == "true":
        every = [(p, f) for p, f in every if (p + f + DAY) % len(PROVIDERS) == 0]
    return [(PROVIDERS[p], list(FAMILIES)[f]) for p, f in every]


@pytest.fixture(scope="module")
def provider_named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SandboxProvider]]:
    """Each provider is made once, when it is first asked for."""
    made: dict[str, SandboxProvider] = {}

    def named(name: str) -> SandboxProvider:
        if name not in made:
            made[name] = _make(name, tmp_path_factory.mktemp(name))
        return made[name]

    yield named
    for provider in made.values():
        anyio.run(close_lab, provider)


def _make(name: str, state: Path) -> SandboxProvider:
    if name == "local":
        return LocalProvider(state)
    if name == "docker":
        return DockerProvider(state=state, base_image=tools_image())
    base = str(compiler_sif())
    options = ApptainerSettings(program=apptainer(), base_image=base, build_attempts=1, free_bytes=1 << 20)
    return ApptainerProvider(state, options=options)


def test_each_family_has_its_task() -> None:
    tasks = swe.load_tasks("mini")
    assert {tasks[name].family for name in FAMILIES.values()} == set(FAMILIES) == set(recipe_names())


@pytest.mark.anyio
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("provider", "family"), cells())
async def test_all_come_to_the_same(
    provider: str, family: str, provider_named: Callable[[str], SandboxProvider], tmp_path: Path
) -> None:
    task = mini_task(FAMILIES[family])
    if provider == "local":
        for tool in task.environment.tools:  # type: ignore[union-attr]
            need_program(tool)
    for result in await _rolled(task, provider_named(provider), tmp_path):
        outcome = result.outcome
        assert (outcome.status, outcome.reward, outcome.mask) == ("resolved", 1.0, None), outcome
        assert outcome.tests.fail_to_pass == dict.fromkeys(task.grading.fail_to_pass, "PASSED")
        assert outcome.tests.pass_to_pass == dict.fromkeys(task.grading.pass_to_pass, "PASSED")


async def _rolled(task: Task, provider: SandboxProvider, folder: Path) -> list[RolloutResult]:
    """The solution made by each agent."""
    patch = gold(task)
    scripted = ScriptedAgent(actions=(Exec(command=apply(patch), check=True),))
    return [
        await run_rollout(task, GoldAgent(), provider=provider, settings=SETTINGS),
        await run_rollout(task, scripted, provider=provider, settings=SETTINGS),
        *[await roll_harness(task, patch, make_agent(name), provider, folder / name) for name in HARNESSES],
    ]
