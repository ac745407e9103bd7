"""mini-swe-agent's own process against a scripted model, in local boxes: how it ends, goes on, and is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.agents.mini_swe_agent import MiniSweAgent
from swe_sdk.agents.registry import make_agent
from swe_sdk.errors import InputError
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from swe_sdk.testing.scripted_model import Fault, Turn, act, fail, say, use
from tests.agents.dialects import MINI
from tests.agents.harness_lab import LabEpisode, lab, need_harness_installed, stop_at_boundary
from tests.agents.tasks import mini_task

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
DONE = use("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")


async def played(
    provider: LocalProvider, folder: Path, script: Sequence[Turn | Fault], agent: MiniSweAgent | None = None
) -> tuple[AgentEnd, LabEpisode, list[int]]:
    agent = agent or MiniSweAgent(model_tries=1)
    with ScriptedModel(script) as model:
        async with lab(mini_task(), provider, agent) as box:
            episode = box.episode(folder, model, command_timeout_s=2.0)
            end = await agent.run(episode)
            return end, episode, model.turns


def workers(parent: int | None = None) -> list[int]:
    """Processes of mini-swe-agent that are ours, or another's."""
    found, parent = [], parent or os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line, stat = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
            except OSError:
                continue
            if b"mini_swe_agent/worker.py" in line and stat.rpartition(")")[2].split()[1] == str(parent):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("fault", "reason", "status", "says"),
    [
        (fail(500), "error", 500, "answered 500"),
        (fail(401), "error", 401, "answered 401"),
        (fail(429), "error", 429, "answered 429"),
        (fail(cut="before_reply"), "error", None, "could not be reached"),
        (
            fail(400, code="context_length_exceeded", message="This model's maximum context length is 10"),
            "context_window",
            400,
            "maximum context length",
        ),
    ],
)
async def test_a_model_that_fails_ends_it_with_a_reason(
    fault: Fault, reason: str, status: int | None, says: str, local_provider: LocalProvider, tmp_path: Path
) -> None:
    end, episode, _ = await played(local_provider, tmp_path, [act(use("bash", command="ls")), fault])
    assert (end.reason, end.info["failure"], end.info["status"]) == (reason, "model", status)
    assert says in end.message
    assert episode.kinds() == ["model", "action"], "what was done before is recorded"
    assert workers() == []


async def test_what_may_pass_is_tried_again(local_provider: LocalProvider, tmp_path: Path) -> None:
    script = [act(DONE, before=(fail(503), fail(cut="before_reply")))]
    end, _, turns = await played(local_provider, tmp_path, script, MiniSweAgent(model_tries=3))
    assert end.reason == "done"
    assert end.info["api_calls"] == 1
    assert turns == [0]


async def test_nobody_at_the_address(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = MiniSweAgent(model_tries=1)
    with ScriptedModel([act(DONE)]) as model, model.refusing():
        async with lab(mini_task(), local_provider, agent) as box:
            end = await agent.run(box.episode(tmp_path, model))
    assert (end.reason, end.info["failure"], end.info["status"]) == ("error", "model", None)
    assert "refused" in end.message


async def test_limits_are_its_own(local_provider: LocalProvider, tmp_path: Path) -> None:
    script = [act(use("bash", command="true"))] * 5
    end, _, turns = await played(local_provider, tmp_path, script, MiniSweAgent(step_limit=2))
    assert (end.reason, end.info["exit_status"], turns) == ("step_limit", "LimitsExceeded", [0, 1])
    priced = MiniSweAgent(cost_limit=0.001, price_in=100.0)  # 10 tokens for a thousandth of a dollar
    end, _, turns = await played(local_provider, tmp_path / "2", script, priced)
    assert (end.reason, turns, end.info["cost"]) == ("step_limit", [0], pytest.approx(0.001))


async def test_replies_without_a_tool_call_end_it_after_three(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = MiniSweAgent()
    with ScriptedModel(lambda _request: say("I would rather talk")) as model:
        async with lab(mini_task(), local_provider, agent) as box:
            episode = box.episode(tmp_path, model)
            end = await agent.run(episode)
        calls = model.requests
    assert (end.reason, end.info["exit_status"]) == ("error", "RepeatedFormatError")
    assert len(calls) == 3
    assert [step.tokens_in for step in episode.steps] == [10, 10, 10], "they cost tokens all the same"
    assert calls[-1].request is not None
    assert calls[-1].request.says("No tool calls found in the response")


async def test_commands_that_are_killed_or_flood_are_told_to_the_model(
    local_provider: LocalProvider, tmp_path: Path
) -> None:
    script = [
        act(use("bash", command="echo begun; sleep 60 & sleep 60")),
        act(use("bash", command="yes flood | head -c 3000000")),
        act(DONE),
    ]
    agent = MiniSweAgent()
    with ScriptedModel(script) as model:
        async with lab(mini_task(), local_provider, agent) as box:
            episode = box.episode(tmp_path, model, command_timeout_s=4.0)
            end = await agent.run(episode)
            assert await box.box.processes() == []  # type: ignore[attr-defined]
        last = model.requests[-1].request
    assert end.reason == "done"
    assert end.patch is None, "it submitted nothing, so the tree counts"
    assert last is not None
    assert last.says("timed out after 4.")
    assert last.says("characters elided")
    assert (tmp_path / "messages.jsonl").stat().st_size < 1_000_000
    assert [step.data.get("status") for step in episode.steps if step.kind == "action"] == [
        "timeout",
        "exited",
        "exited",
    ]
    assert episode.steps[3].data["output_bytes"] == 3_000_000


COUNTED = MINI.script(
    "echo step0 >> /tmp/s", ["echo step1a >> /tmp/s", "echo step1b >> /tmp/s"], "echo step2 >> /tmp/s"
)


@pytest.mark.parametrize("boundaries", [1, 2, 3])
async def test_it_goes_on_exactly_where_it_was_saved(
    boundaries: int, local_provider: LocalProvider, tmp_path: Path
) -> None:
    """Ended at every, every second, every third boundary: no model call and no command is made twice or left out."""
    agent = MiniSweAgent()
    state: dict[str, Any] | None = None
    steps, processes = [], 0
    with ScriptedModel(COUNTED) as model:
        async with lab(mini_task(), local_provider, agent) as box:
            while True:
                processes += 1
                episode = box.episode(tmp_path / str(processes), model, saved=state, stop_after=boundaries + 1)
                saved = await stop_at_boundary(agent, episode)
                steps += episode.steps
                if saved is None:
                    break
                state = saved
            assert (await box.box.read("/tmp/s")).decode().split() == ["step0", "step1a", "step1b", "step2"]
        assert model.turns == [0, 1, 2, 3]
    assert [step.n for step in steps] == list(range(1, 11))
    assert processes > 10 // boundaries - 1


async def test_its_death_is_an_end_and_no_error(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = MiniSweAgent()
    with ScriptedModel([act(use("bash", command="ls")), act(DONE, gate="held")]) as model:
        async with lab(mini_task(), local_provider, agent) as box, anyio.create_task_group() as tasks:

            async def kill_it() -> None:
                await model.wait_for_async(2)
                (worker,) = workers()
                os.kill(worker, signal.SIGKILL)

            tasks.start_soon(kill_it)
            end = await agent.run(box.episode(tmp_path, model))
    assert (end.reason, end.info, end.exit_code) == ("error", {"failure": "harness"}, -9)


async def test_its_last_words_are_told(local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = MiniSweAgent(prompts={"instance_template": "{{no_such_thing}}"})
    end, episode, turns = await played(local_provider, tmp_path, [act(DONE)], agent)
    assert (end.reason, end.exit_code, end.info, turns) == ("error", 1, {"failure": "harness"}, [])
    assert "'no_such_thing' is undefined" in end.message
    assert "Traceback" in episode.said("mini-swe-agent.stderr")


def test_an_unknown_prompt_is_refused() -> None:
    with pytest.raises(InputError, match="instance_prompt"):
        make_agent("mini-swe-agent", prompts={"instance_prompt": "x"})


async def test_the_way_to_wait_is_the_endpoints(local_provider: LocalProvider, tmp_path: Path) -> None:
    script = [act(DONE, before=(fail(429, headers={"retry-after": "2.5"}),))]
    end, episode, _ = await played(local_provider, tmp_path, script, MiniSweAgent(model_tries=2))
    assert end.reason == "done"
    assert episode.steps[0].seconds >= 2.5


async def test_without_its_host_it_ends(local_provider: LocalProvider, tmp_path: Path) -> None:
    """Even in the middle of a model call: a killed program of ours leaves no process of it."""
    code = """
import sys, anyio
from pathlib import Path
from swe_sdk.agents.mini_swe_agent import MiniSweAgent
from swe_sdk.agents.registry import make_agent
from swe_sdk.errors import InputError
from swe_sdk.agents.contract import ModelAccess
from tests.agents.harness_lab import no_box
episode = no_box(Path(sys.argv[1]))
episode.model = ModelAccess(name="scripted", base_url=sys.argv[2])
anyio.run(MiniSweAgent().run, episode)
"""
    need_harness_installed("mini-swe-agent")
    with ScriptedModel([act(DONE, gate="held")]) as model:
        command = [sys.executable, "-c", code, str(tmp_path), model.url]
        host = subprocess.Popen(command, cwd=Path(__file__).parents[3])
        await model.wait_for_async(1, timeout_s=60)
        (worker,) = workers(host.pid)
        host.kill()
        host.wait()
        with anyio.fail_after(10):
            while Path(f"/proc/{worker}").exists():
                await anyio.sleep(0.02)


@pytest.mark.parametrize("where", ["model call", "command"])
async def test_cancelled_it_leaves_nothing(where: str, local_provider: LocalProvider, tmp_path: Path) -> None:
    agent = MiniSweAgent()
    script = [act(use("bash", command="touch /tmp/on; sleep 60"), gate="held" if where == "model call" else None)]
    with ScriptedModel(script) as model:
        async with lab(mini_task(), local_provider, agent) as box:
            episode = box.episode(tmp_path, model)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(agent.run, episode)
                await model.wait_for_async(1)
                while where == "command" and not (await box.box.exec("test -e /tmp/on")).ok:
                    await anyio.sleep(0.02)
                assert len(workers()) == 1
                tasks.cancel_scope.cancel()
            assert workers() == []
            assert await box.box.processes() == []  # type: ignore[attr-defined]
    trajectory = episode.said("trajectory.traj.json")
    assert '"trajectory_format": "mini-swe-agent-1.1"' in trajectory, "what there was is kept"
