"""OpenHands itself against a scripted model, in local boxes: how it ends, is parked, and is ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.agents.openhands import OpenHands
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from swe_sdk.testing.scripted_model import Fault, Turn, act, fail
from tests.agents.dialects import OPENHANDS
from tests.agents.harness_lab import LabEpisode, lab, programs
from tests.agents.tasks import mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(500)]
TOO_LONG = fail(400, code="context_length_exceeded", message="This model's maximum context length is 10 tokens")


@pytest.mark.parametrize(
    ("fault", "reason", "code"),
    [
        (fail(401), "error", "LLMBadRequestError"),
        (fail(500), "error", "LLMServiceUnavailableError"),
        (fail(cut="before_reply"), "error", "LLMServiceUnavailableError"),
        (TOO_LONG, "context_window", "context_window"),
    ],
    ids=["refused", "failing", "broken", "too long"],
)
async def test_a_model_that_fails_ends_it(
    fault: Fault, reason: str, code: str, local_provider: LocalProvider, tmp_path: Path
) -> None:
    script = [act(OPENHANDS.run("ls")), fault]
    end, episode = await _played(OpenHands(model_tries=1), script, local_provider, tmp_path)
    assert (end.reason, end.info["failure"], end.info["code"]) == (reason, "model", code)
    assert episode.kinds()[:2] == ["model", "action"]


async def test_parked_it_is_gone_and_goes_on_with_the_next_step(local_provider: LocalProvider, tmp_path: Path) -> None:
    """Asked in the middle of a step, it ends it first; no model call is made twice, no message added."""
    agent = OpenHands()
    script = OPENHANDS.script("touch /tmp/on; sleep 1; echo one >> /tmp/s", "echo two >> /tmp/s")
    with ScriptedModel(script) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            first = box.episode(tmp_path, model, stop_after=1)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, first)
                while not (await box.box.exec("test -e /tmp/on")).ok:
                    await anyio.sleep(0.05)
                first.park.set()
                await first.stands.wait()
                assert await box.box.processes() == []  # type: ignore[attr-defined]
                tasks.cancel_scope.cancel()
            assert (await box.box.read("/tmp/s")) == b"one\n"
            second = box.episode(tmp_path, model, saved=first.boundaries[-1])
            end = await agent.run(second)
            assert (await box.box.read("/tmp/s")) == b"one\ntwo\n"
        assert model.turns == [0, 1, 2]
        last = model.requests[-1].request
    assert (end.reason, end.message) == ("done", "it is done")
    assert [step.n for step in (*first.steps, *second.steps)] == [1, 2, 3, 4, 5, 6]
    assert last is not None
    assert [item["role"] for item in last.items].count("user") == 1


async def test_a_limit(local_provider: LocalProvider, tmp_path: Path) -> None:
    script = OPENHANDS.script("yes flood | head -c 5000000", "true", "true")
    end, _ = await _played(OpenHands(max_iterations=2), script, local_provider, tmp_path)
    assert (end.reason, end.info["model_calls"]) == ("step_limit", 2)
    assert (tmp_path / "openhands.jsonl").stat().st_size < 1_000_000


async def test_its_death_is_an_end(local_provider: LocalProvider, tmp_path: Path) -> None:
    script = OPENHANDS.script('kill -9 "$(cat /var/tmp/swe_sdk/openhands/pid)"; sleep 300')
    end, _ = await _played(OpenHands(), script, local_provider, tmp_path)
    assert (end.reason, end.exit_code, end.info["failure"]) == ("error", -9, "harness")


async def test_cancelled_it_leaves_nothing(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = OpenHands()
    with ScriptedModel(OPENHANDS.script("touch /tmp/on; sleep 300")) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, box.episode(tmp_path, model))
                while not (await box.box.exec("test -e /tmp/on")).ok:
                    await anyio.sleep(0.1)
                assert await programs(box.box, "openhands") != []
                tasks.cancel_scope.cancel()
            assert await box.box.processes() == []  # type: ignore[attr-defined]


async def _played(
    agent: OpenHands, script: Sequence[Turn | Fault], provider: LocalProvider, folder: Path
) -> tuple[AgentEnd, LabEpisode]:
    with ScriptedModel(script) as model:
        async with lab(mini_task(), provider, agent, model) as box:
            episode = box.episode(folder, model)
            return await agent.run(episode), episode
