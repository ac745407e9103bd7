"""A budget of 30 seconds, 20 of them spent within the agent's work at the cut: who goes on for 11 seconds times out.

``SWE_SDK_BUDGET_UNIT_S`` is what stands for a second here (0.2 by default).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swe_sdk import aio
from swe_sdk.agents import ScriptedAgent
from swe_sdk.agents.scripted import Exec, Wait
from swe_sdk.model.task import Task
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.runs.checkpointed import FIX, events, stopped_when_saved

SECOND = float(os.environ.get("SWE_SDK_BUDGET_UNIT_S") or 0.2)
TOTAL_S = 30 * SECOND
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60 + 4 * TOTAL_S)]


@pytest.mark.parametrize(("held", "in_time"), [(11, False), (5, True)], ids=["too long", "in time"])
async def test_only_what_was_left_is_left(
    held: int, in_time: bool, local_provider: LocalProvider, task: Task, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    warm = await aio.run(task, "noop", provider=local_provider, path=tmp_path / "warm", progress=False)
    warm.close()
    agent = ScriptedAgent(actions=(Exec(command="echo begun > begun.txt"), Wait(seconds=(20 + held) * SECOND), FIX))
    await stopped_when_saved(path, task, agent, local_provider, checkpoint_every=20 * SECOND, budget=TOTAL_S)
    with await aio.open_run(path) as stopped:
        (cut,) = stopped.checkpoints.kept[-1].inspect()
    assert cut.agent_state is not None
    left_to_wait_s = (20 + held) * SECOND - cut.agent_state["waited_s"]
    assert (cut.next, cut.agent_state["done"]) == ("invoke_agent", 1)
    assert cut.budget.spent_s == pytest.approx(20 * SECOND, abs=2 * SECOND)
    assert left_to_wait_s < TOTAL_S, "a whole budget would be enough"

    with await aio.resume(path, provider=local_provider, progress=False) as run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.attempt, "+begun" in rollout.patch.text) == (2, True)
        assert rollout.status == ("resolved" if in_time else "unresolved"), rollout.line
        spent = [one["budget"] for one in events(path) if one["kind"] == "budget"][-1]
        stage_s = [one for one in events(path) if one["kind"] == "stage_ended" and one["stage"] == "invoke_agent"][-1]
    if not in_time:
        assert "budget" in rollout.line or rollout.row.flags, rollout.line
        assert stage_s["seconds"] < left_to_wait_s, "it was not let wait to its end"
        assert cut.budget.spent_s + stage_s["seconds"] == pytest.approx(TOTAL_S, abs=SECOND)
        assert spent["spent_s"] >= TOTAL_S - SECOND
