"""OpenCode itself against a scripted model, in local boxes: how it ends, is parked, and is ended."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.agents.opencode import OpenCode
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from swe_sdk.testing.scripted_model import Fault, act, fail
from tests.agents.dialects import OPENCODE
from tests.agents.harness_lab import lab, programs
from tests.agents.tasks import mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(500)]


@pytest.mark.parametrize(
    ("fault", "status"),
    [(fail(401), 401), (fail(500), None), (fail(cut="before_reply"), None)],
    ids=["refused", "failing", "broken"],
)
async def test_a_model_that_fails_ends_it(
    fault: Fault, status: int | None, local_provider: LocalProvider, tmp_path: Path
) -> None:
    agent = OpenCode(model_tries=2)
    with ScriptedModel([act(OPENCODE.run("ls")), fault]) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            episode = box.episode(tmp_path, model)
            end = await agent.run(episode)
            assert await programs(box.box, "opencode") == []
    assert (end.reason, end.info["failure"], end.info.get("status")) == ("error", "model", status)
    assert episode.kinds() == ["model", "action"]
    assert len([played for played in model.calls if played.kind == "fault"]) == (1 if status else 2)


async def test_parked_it_is_gone_and_goes_on_with_a_word(local_provider: LocalProvider, tmp_path: Path) -> None:
    """Its session is in the box: the process that goes on knows all that was said."""
    agent = OpenCode()
    with ScriptedModel(OPENCODE.script("echo one >> /tmp/s", "echo two >> /tmp/s")) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            first = box.episode(tmp_path, model, stop_after=1)
            first.park.set()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, first)
                await first.stands.wait()
                assert await box.box.processes() == []  # type: ignore[attr-defined]
                tasks.cancel_scope.cancel()
            assert (await box.box.read("/tmp/s")) == b"one\n"
            second = box.episode(tmp_path, model, saved=first.boundaries[-1])
            end = await agent.run(second)
            assert (await box.box.read("/tmp/s")) == b"one\ntwo\n"
        last = model.requests[-1].request
    assert (end.reason, end.info["model_calls"]) == ("done", 3)
    assert [step.n for step in (*first.steps, *second.steps)] == [1, 2, 3, 4, 5]
    assert last is not None
    assert last.says("Continue.")
    assert last.says(mini_task().problem_statement.strip()[:60])


async def test_its_death_a_flood_and_a_limit(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = OpenCode(max_steps=3)
    flood, tree = "yes flood | head -c 5000000", "(setsid sleep 300 &) ; kill -9 $PPID; sleep 300"
    end = await _played(agent, [flood, "true", "true", "true"], local_provider, tmp_path / "1")
    assert (end.reason, end.info["model_calls"]) == ("step_limit", 3)
    assert (tmp_path / "1" / "opencode.jsonl").stat().st_size < 1_000_000
    end = await _played(agent, [tree], local_provider, tmp_path / "2")
    assert (end.reason, end.exit_code, end.info["failure"]) == ("error", -9, "harness")


async def test_cancelled_it_leaves_nothing(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = OpenCode()
    with ScriptedModel(OPENCODE.script("touch /tmp/on; sleep 300")) as model:
        async with lab(mini_task(), local_provider, agent, model) as box:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, box.episode(tmp_path, model))
                while not (await box.box.exec("test -e /tmp/on")).ok:
                    await anyio.sleep(0.1)
                assert await programs(box.box, "opencode") != []
                tasks.cancel_scope.cancel()
            assert await box.box.processes() == []  # type: ignore[attr-defined]


async def _played(agent: OpenCode, commands: list[str], provider: LocalProvider, folder: Path) -> AgentEnd:
    with ScriptedModel(OPENCODE.script(*commands)) as model:
        async with lab(mini_task(), provider, agent, model) as box:
            return await agent.run(box.episode(folder, model))
