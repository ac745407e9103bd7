"""A run whose agents wait for a model saves itself without waiting for it, and asks nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import anyio
import httpx
import pytest
from anyio import to_thread

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.agents import MiniSweAgent
from swe_sdk.agents.contract import Agent, AgentEnd, AgentNeeds, Episode, Step, Tier
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel
from swe_sdk.testing.scripted.script import Turn, say
from tests.agents.dialects import MINI
from tests.agents.harness_lab import need_harness_installed
from tests.runs.checkpointed import events

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
COMMANDS = ("echo step 1 >> steps.txt", "echo step 2 >> steps.txt", "sed -i 's/41/42/' src.txt")
GATED = 2
"""The turn that the model keeps back."""


class Talker(Record):
    """Does what the model says; its whole state is the conversation."""

    name: ClassVar[str] = "talker"
    version: ClassVar[str] = "1"
    tier: ClassVar[Tier] = "exact"
    needs: ClassVar[AgentNeeds] = AgentNeeds(egress="model", model_from_box=False)

    async def run(self, episode: Episode) -> AgentEnd:
        messages = list((episode.saved or {}).get("messages", [{"role": "user", "content": "go"}]))
        while True:
            await episode.boundary({"messages": messages})
            command = await self._ask(episode, messages)
            messages.append({"role": "assistant", "content": command})
            episode.record(Step(n=len(messages) // 2, kind="model", summary=command))
            if command == "done":
                return AgentEnd()
            await episode.box.exec(command)
            messages.append({"role": "user", "content": "and now?"})

    async def _ask(self, episode: Episode, messages: list[dict[str, str]]) -> str:
        assert episode.model is not None
        headers = {"authorization": f"Bearer {episode.model.api_key.get_secret_value()}"}
        body = {"model": episode.model.name, "messages": messages}
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            answer = await client.post(f"{episode.model.base_url}/chat/completions", json=body)
        return str(answer.json()["choices"][0]["message"]["content"])


def gated(turns: Sequence[Turn]) -> list[Turn]:
    return [turn.model_copy(update={"gate": "open"}) if n == GATED else turn for n, turn in enumerate(turns)]


def agent_and_script(name: str) -> tuple[Agent, list[Turn]]:
    if name == "talker":
        return Talker(), [*map(say, COMMANDS), say("done")]
    return MiniSweAgent(), MINI.script(*COMMANDS)


async def saved_within_the_call(run_it: object, path: Path, model: ScriptedModel) -> None:
    """Let a run go until its agent waits for the gated turn, and a checkpoint was saved meanwhile; then end it."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                await model.wait_for_async(GATED + 1, timeout_s=90)
                known = saves(path)
                while saves(path) < known + 2:  # one may have begun before
                    await anyio.sleep(0.02)
                scope.cancel()

            group.start_soon(stop)
            await run_it()  # type: ignore[operator]
    assert scope.cancelled_caught


def saves(path: Path) -> int:
    return sum(one["kind"] == "checkpoint_saved" for one in events(path))


@pytest.mark.parametrize("name", ["talker", "mini-swe-agent"])
async def test_no_call_before_the_restored_boundary_is_made_again(
    name: str, local_provider: LocalProvider, task: Task, tmp_path: Path
) -> None:
    if name != "talker":
        await to_thread.run_sync(need_harness_installed, name)
    path, (agent, script) = tmp_path / "run", agent_and_script(name)
    async with ScriptedModel(gated(script), title=None) as model:
        endpoint = swe.ModelEndpoint(base_url=model.url, model="scripted")

        async def first() -> None:
            await aio.run(
                task, agent, model=endpoint, provider=local_provider, path=path, checkpoint_every=0.5, progress=False
            )

        await saved_within_the_call(first, path, model)
        with await aio.open_run(path) as run:
            newest = run.checkpoints.kept[-1]
            assert newest.phases_s["prepare"] < 1, "it does not wait for the model"
            (held,) = newest.inspect()
            assert held.next == "invoke_agent"
        model.open_gate("open")
        run = await aio.resume(
            path,
            provider=local_provider,
            model=endpoint,
            progress=False,
            agent=None if name != "talker" else agent,
        )
        turns = model.turns
    with run:
        check_result(run, task)
    assert turns[:2] == [0, 1]
    assert sorted(set(turns)) == list(range(len(script)))
    assert {turn for turn in turns if turns.count(turn) > 1} == {GATED}, "only the call that was cut is made again"


def check_result(run: Run, task: Task) -> None:
    rollout = run.rollouts[task.instance_id]
    assert (rollout.status, rollout.attempt) == ("resolved", 2), rollout.line
    assert "+step 1\n+step 2\n" in rollout.patch.text
    assert rollout.patch.text.count("+step") == 2
    assert run.checkpoints.kept == []


async def test_answers_that_come_while_it_is_saved_are_given_afterwards(
    local_provider: LocalProvider, tasks: TaskSet, tmp_path: Path
) -> None:
    script = [turn.model_copy(update={"delay_s": 0.3}) for turn in agent_and_script("talker")[1]]
    async with ScriptedModel(script, title=None) as model:
        run = await aio.run(
            tasks,
            Talker(),
            model=swe.ModelEndpoint(base_url=model.url, model="scripted"),
            provider=local_provider,
            path=tmp_path / "run",
            limit=3,
            checkpoint_every=0.15,
            budget=60,
            progress=False,
        )
        turns = model.turns
    with run:
        assert run.metrics.resolved == 3
        assert len(run.checkpoints) >= 3
        assert all(rollout.row.model_calls == 4 for rollout in run.rollouts.values())
        assert all(rollout.patch.text.count("+step") == 2 for rollout in run.rollouts.values())
        assert all(row.parked_s > 0 for row in run.rollouts.rows())
    assert sorted(turns) == sorted([0, 1, 2, 3] * 3), "each call is made once, and none is lost"
