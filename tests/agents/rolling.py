"""A whole rollout of a real harness: engine, gateway, network-less box, grade and store are real, the model is not."""

from __future__ import annotations

from pathlib import Path

from anyio import to_thread

import swe_sdk as swe
from swe_sdk.agents.contract import Agent
from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.model_endpoint import ModelEgress
from swe_sdk.model.patch import Patch
from swe_sdk.model.task import Task
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.model_ledger import RunLedger
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.writer import RunWriter
from swe_sdk.testing import ScriptedModel
from tests.agents.dialects import DIALECTS
from tests.agents.harness_lab import need_harness_installed

OWN_KEY = "the-key-of-the-endpoint"
SETTINGS = RolloutSettings(agent_timeout_s=300, retries=0)


async def roll_harness(
    task: Task, patch: Patch, agent: Agent, provider: SandboxProvider, folder: Path
) -> RolloutResult:
    """The model looks around, applies ``patch``, and says that it is done. ``folder`` is the run directory."""
    await to_thread.run_sync(need_harness_installed, agent.name)
    script = DIALECTS[agent.name].patching(patch)
    with ScriptedModel(script, api_key=OWN_KEY) as model, RunWriter(folder, sync=False) as journal:
        endpoint = swe.ModelEndpoint(base_url=model.url, model=model.model, api_key=OWN_KEY)
        async with open_gateway(endpoint, RunLedger(journal)) as gateway:
            result = await run_rollout(
                task, agent, provider=provider, model=ModelEgress(gateway), journal=journal, settings=SETTINGS
            )
    assert result.last.end is not None, result
    assert result.last.end.reason == "done", result.last.end
    assert model.turns == [0, 1, 2], "one call for each turn, and none besides"
    asked = model.requests[0].request
    assert asked is not None
    assert asked.says(task.problem_statement.strip()[:60])
    return result
