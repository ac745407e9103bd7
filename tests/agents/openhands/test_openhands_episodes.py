"""OpenHands itself against a scripted model, in local boxes: how it is parked.

How it ends is in ``test_in_box_ends.py``.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.agents.openhands import OpenHands
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from tests.agents.dialects import OPENHANDS
from tests.agents.harness_lab import gated, lab, programs
from tests.agents.tasks import mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(500)]


async def test_it_parks_in_place_and_goes_on_elsewhere_with_the_next_step(
    local_provider: LocalProvider, tmp_path: Path
) -> None:
    """The call that was cut is made again; no message is added, and what nobody had heard is told first."""
    agent = OpenHands()
    with ScriptedModel(gated(OPENHANDS.script("echo one >> /tmp/s", "echo two >> /tmp/s"), 1)) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            first = box.episode(tmp_path, model, stop_after=1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, first)
                await model.wait_for_async(2, timeout_s=120)
                first.park.set()
                await first.stands.wait()
                assert await programs(box.box, "openhands") != []
                tasks.cancel_scope.cancel()
            assert (await box.box.read("/tmp/s")) == b"one\n"
            model.open_gate("go")
            heard = {**(first.boundaries[-1] or {}), **({"n_steps": 0, "n_calls": 0, "seen": None})}
            assert first.boundaries[-1] != heard
            second = box.episode(tmp_path, model, saved=heard)
            end = await agent.run(second)
            assert (await box.box.read("/tmp/s")) == b"one\ntwo\n"
        assert model.turns == [0, 1, 1, 2]
        last = model.requests[-1].request
    assert (end.reason, end.message) == ("done", "it is done")
    assert [step.summary for step in second.steps[:2]] == [step.summary for step in first.steps]
    assert [step.n for step in second.steps] == [1, 2, 3, 4, 5, 6]
    assert last is not None
    assert [item["role"] for item in last.items].count("user") == 1
