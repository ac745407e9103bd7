"""Each real harness solves tasks whose answer stands in the script, and fails where the script is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_sdk.agents.contract import Agent
from swe_sdk.agents.registry import make_agent
from swe_sdk.rollouts.result import RolloutResult
from swe_sdk.sandbox.contract import SandboxProvider
from swe_sdk.store.index import open_index
from tests.agents.dialects import DIALECTS
from tests.agents.rolling import OWN_KEY, roll_harness
from tests.agents.tasks import MINI, gold, mini_task, sdist_task, wrong

APPLIES = b"git apply --whitespace=nowarn"
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


@pytest.fixture(params=sorted(DIALECTS))
def agent(request: pytest.FixtureRequest) -> Agent:
    return make_agent(request.param)


@pytest.mark.parametrize("name", MINI)
async def test_solves(name: str, agent: Agent, provider: SandboxProvider, tmp_path: Path) -> None:
    task = mini_task(name)
    result = await roll_harness(task, gold(task), agent, provider, tmp_path)
    assert (result.outcome.status, result.outcome.mask) == ("resolved", None), result
    _check_store(tmp_path, result)


@pytest.mark.shared
async def test_solves_a_real_task(agent: Agent, usual_provider: SandboxProvider, tmp_path: Path) -> None:
    task = sdist_task()
    result = await roll_harness(task, gold(task), agent, usual_provider, tmp_path)
    assert (result.outcome.status, result.outcome.mask) == ("resolved", None), result
    _check_store(tmp_path, result)


async def test_a_wrong_script_does_not_resolve(agent: Agent, provider: SandboxProvider, tmp_path: Path) -> None:
    task = mini_task()
    result = await roll_harness(task, wrong(task), agent, provider, tmp_path)
    assert (result.outcome.status, result.outcome.mask) == ("unresolved", None), result
    assert result.patch.exists
    _check_store(tmp_path, result)


def _check_store(folder: Path, result: RolloutResult) -> None:
    with open_index(folder, index_dir=folder / "index") as index:
        index.refresh()
        steps = index.steps(result.rollout_id).rows
        calls = index.model_calls(result.rollout_id).rows
        kept = index.patch(result.rollout_id)
        outcome = index.outcome(result.rollout_id)
        transcripts = b""
        for row in index.artifacts(result.rollout_id):
            if row.role == "transcript":
                with index.open_artifact(row) as file:
                    transcripts += file.read_window(0, 1 << 20)
    assert any(step.step_kind == "model" for step in steps)
    assert sum(step.step_kind == "action" for step in steps) >= 2
    assert (sum(step.tokens_in for step in steps), sum(step.tokens_out for step in steps)) == (30, 15)
    assert [(call.tokens_in, call.tokens_out) for call in calls] == [(10, 5)] * 3
    assert kept == result.patch
    assert outcome == result.outcome
    assert APPLIES in transcripts, "what the model wanted to be done is in the harness's own transcript"
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert OWN_KEY.encode() not in written, "the endpoint's key is nowhere"
