"""Agents x providers x families: the same patch comes to the same outcome, whoever makes it and wherever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from swe_sdk.agents.gold import GoldAgent
from swe_sdk.agents.registry import make_agent
from swe_sdk.agents.scripted import Exec, ScriptedAgent
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.sandbox.providers.apptainer.provider import ApptainerProvider
from swe_sdk.sandbox.providers.apptainer.settings import ApptainerSettings
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.agents.dialects import apply
from tests.agents.harness_lab import close_lab
from tests.agents.rolling import SETTINGS, roll_harness
from tests.agents.tasks import gold, mini_task
from tests.sandbox.apptainer.images import apptainer, debian_sif
from tests.sandbox.docker.images import debian_image

FAMILIES = ("mini__fairsplit-1", "mini__spans-1", "mini__linewrap-1", "mini__countdown-1", "mini__tally-1")
"""One of each family whose tasks need no tool besides Python: containers of Debian have no other."""


@pytest.fixture(scope="module", params=["local", "docker", "apptainer"])
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProvider]:
    made = _make(request.param, tmp_path_factory.mktemp(request.param))
    yield made
    anyio.run(close_lab, made)


def _make(name: str, state: Path) -> SandboxProvider:
    if name == "local":
        return LocalProvider(state)
    if name == "docker":
        return DockerProvider(state=state, base_image=debian_image())
    options = ApptainerSettings(program=apptainer(), base_image=str(debian_sif()), build_attempts=1, free_bytes=1 << 20)
    return ApptainerProvider(state, options=options)


@pytest.mark.anyio
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FAMILIES)
async def test_all_come_to_the_same(name: str, anywhere: SandboxProvider, tmp_path: Path) -> None:
    task = mini_task(name)
    scripted = ScriptedAgent(actions=(Exec(command=apply(gold(task)), check=True),))
    results = [
        await run_rollout(task, GoldAgent(), provider=anywhere, settings=SETTINGS),
        await run_rollout(task, scripted, provider=anywhere, settings=SETTINGS),
        await roll_harness(task, gold(task), make_agent("mini-swe-agent"), anywhere, tmp_path / "mini"),
        await roll_harness(task, gold(task), make_agent("opencode"), anywhere, tmp_path / "opencode"),
    ]
    outcomes = [result.outcome for result in results]
    seen = [(outcome.status, outcome.reward, outcome.mask, outcome.tests) for outcome in outcomes]
    assert seen[0][:3] == ("resolved", 1.0, None), outcomes[0]
    assert seen == [seen[0]] * 4
