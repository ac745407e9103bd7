"""Each real harness solves tasks whose answer stands in the script, and fails where the script is wrong.

All of it is real but the model: the engine, the gateway, boxes without a network, the grades, and the run's store.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import to_thread

import swe_sdk as swe
from swe_sdk.agents.contract import Agent
from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.model_endpoint import ModelEgress
from swe_sdk.agents.registry import make_agent
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.model_ledger import RunLedger
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter
from swe_sdk.testing import ScriptedModel
from tests.agents.dialects import DIALECTS, Dialect
from tests.agents.harness_lab import need_harness_installed
from tests.agents.tasks import MINI, gold, mini_task, sdist_task, wrong

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]
OWN_KEY = "the-key-of-the-endpoint"
SETTINGS = RolloutSettings(agent_timeout_s=300, retries=0)


@pytest.fixture(params=sorted(DIALECTS))
def agent(request: pytest.FixtureRequest) -> Agent:
    return make_agent(request.param)


@pytest.fixture
def dialect(agent: Agent) -> Dialect:
    return DIALECTS[agent.name]


@pytest.mark.parametrize("name", MINI)
async def test_solves(name: str, agent: Agent, dialect: Dialect, provider: SandboxProvider, tmp_path: Path) -> None:
    task = mini_task(name)
    result = await _rolled(task, gold(task), agent, dialect, provider, tmp_path)
    assert (result.outcome.status, result.outcome.mask) == ("resolved", None), result


@pytest.mark.shared
async def test_solves_a_real_task(
    agent: Agent, dialect: Dialect, usual_provider: SandboxProvider, tmp_path: Path
) -> None:
    task = sdist_task()
    result = await _rolled(task, gold(task), agent, dialect, usual_provider, tmp_path)
    assert (result.outcome.status, result.outcome.mask) == ("resolved", None), result


async def test_a_wrong_script_does_not_resolve(
    agent: Agent, dialect: Dialect, local_provider: SandboxProvider, tmp_path: Path
) -> None:
    task = mini_task()
    result = await _rolled(task, wrong(task), agent, dialect, local_provider, tmp_path)
    assert (result.outcome.status, result.outcome.mask) == ("unresolved", None), result
    assert result.patch.exists


async def _rolled(
    task: Task, patch: Patch, agent: Agent, dialect: Dialect, provider: SandboxProvider, folder: Path
) -> RolloutResult:
    await to_thread.run_sync(need_harness_installed, agent.name)
    with ScriptedModel(dialect.patching(patch), api_key=OWN_KEY) as model, RunWriter(folder, sync=False) as journal:
        endpoint = swe.ModelEndpoint(base_url=model.url, model=model.model, api_key=OWN_KEY)
        async with open_gateway(endpoint, RunLedger(journal)) as gateway:
            result = await run_rollout(
                task, agent, provider=provider, model=ModelEgress(gateway), journal=journal, settings=SETTINGS
            )
    assert result.last.end is not None
    assert result.last.end.reason == "done", result.last.end
    assert model.turns == [0, 1, 2], "one call for each turn, and none besides"
    asked = model.requests[0].request
    assert asked is not None
    assert asked.says(task.problem_statement.strip()[:60])
    _check_store(folder, result)
    return result


def _check_store(folder: Path, result: RolloutResult) -> None:
    with open_index(folder, index_dir=folder / "index") as index:
        index.refresh()
        steps = index.steps(result.rollout_id).rows
        calls = index.model_calls(result.rollout_id).rows
        kept = index.patch(result.rollout_id)
    spoken = [step for step in steps if step.step_kind == "model"]
    assert [(step.tokens_in, step.tokens_out) for step in spoken] == [(10, 5)] * 3
    assert sum(step.step_kind == "action" for step in steps) >= 2
    assert [call.tokens_in for call in calls] == [10] * 3
    assert kept is not None
    assert kept.sha256 == result.patch.sha256
    said = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"a step" in said, "what the model said is in a transcript"
    assert OWN_KEY.encode() not in said, "the endpoint's key is nowhere"
