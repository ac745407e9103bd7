"""OpenCode itself against a scripted model, in local boxes: how it is parked.

How it ends is in ``test_in_box_ends.py``.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.agents.opencode import OpenCode
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from tests.agents.dialects import OPENCODE
from tests.agents.harness_lab import gated, lab, programs
from tests.agents.tasks import mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(500)]


async def test_it_parks_in_place_and_goes_on_elsewhere_as_if_nothing_had_happened(
    local_provider: LocalProvider, tmp_path: Path
) -> None:
    """Its session is in the box: a new process makes the call that was cut again, and adds nothing."""
    agent = OpenCode()
    script = gated(OPENCODE.script("echo one >> /tmp/s", "echo two >> /tmp/s"), 1)
    with ScriptedModel(script) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            first = box.episode(tmp_path, model, stop_after=1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, first)
                await model.wait_for_async(2, timeout_s=60)
                first.park.set()
                await first.stands.wait()
                assert await programs(box.box, "opencode") != []
                tasks.cancel_scope.cancel()
            assert (await box.box.read("/tmp/s")) == b"one\n"
            model.open_gate("go")
            second = box.episode(tmp_path, model, saved=first.boundaries[-1])
            end = await agent.run(second)
            assert (await box.box.read("/tmp/s")) == b"one\ntwo\n"
        cut, again, last = (model.requests[number].request for number in (1, 2, -1))
    assert (end.reason, end.info["model_calls"]) == ("done", 3)
    assert [step.n for step in (*first.steps, *second.steps)] == [1, 2, 3, 4, 5]
    assert model.turns == [0, 1, 1, 2]
    assert cut is not None
    assert again is not None
    assert again.items == cut.items
    assert last is not None
    assert [item["role"] for item in last.items].count("user") == 1


async def test_what_nobody_has_heard_is_told_by_who_goes_on(local_provider: LocalProvider, tmp_path: Path) -> None:
    """Its lines come by another way than its calls: a step that was over at the cut may not have been heard of."""
    agent = OpenCode()
    with ScriptedModel(gated(OPENCODE.script("echo one", "echo two"), 2)) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            first = box.episode(tmp_path, model, stop_after=1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, first)
                await model.wait_for_async(3, timeout_s=60)
                first.park.set()
                await first.stands.wait()
                tasks.cancel_scope.cancel()
            model.open_gate("go")
            heard = {**(first.boundaries[-1] or {}), "n_steps": 0, "calls": 0, "seen": None}
            second = box.episode(tmp_path, model, saved=heard)
            end = await agent.run(second)
    assert end.info["model_calls"] == 3
    assert [(step.n, step.summary) for step in second.steps[:4]] == [(s.n, s.summary) for s in first.steps]
    assert len(first.steps) == 4
    assert second.kinds() == ["model", "action", "model", "action", "model"]
