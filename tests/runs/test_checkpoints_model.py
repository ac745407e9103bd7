"""A run whose agents wait for a model saves itself without waiting for it, and asks nothing twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

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
from tests.runs.checkpointed import all_saves, stopped_when

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
            if command is None:
                return AgentEnd(reason="error", message="the model refuses", info={"failure": "model"})
            messages.append({"role": "assistant", "content": command})
            episode.record(Step(n=len(messages) // 2, kind="model", summary=command))
            if command == "done":
                return AgentEnd()
            await episode.box.exec(command)
            messages.append({"role": "user", "content": "and now?"})

    async def _ask(self, episode: Episode, messages: list[dict[str, str]]) -> str | None:
        assert episode.model is not None
        headers = {"authorization": f"Bearer {episode.model.api_key.get_secret_value()}"}
        body = {"model": episode.model.name, "messages": messages}
        async with httpx.AsyncClient(headers=headers, timeout=60) as client:
            answer = await client.post(f"{episode.model.base_url}/chat/completions", json=body)
        return None if answer.status_code == 403 else str(answer.json()["choices"][0]["message"]["content"])


def gated(turns: Sequence[Turn]) -> list[Turn]:
    return [turn.model_copy(update={"gate": "open"}) if n == GATED else turn for n, turn in enumerate(turns)]


def agent_and_script(name: str) -> tuple[Agent, list[Turn]]:
    if name == "talker":
        return Talker(), [*map(say, COMMANDS), say("done")]
    return MiniSweAgent(), MINI.script(*COMMANDS)


async def cut_within_a_call(
    name: str,
    provider: LocalProvider,
    task: Task,
    path: Path,
    *,
    look: Callable[[Run], object] = lambda _stopped: None,
    **options: Any,
) -> tuple[Run, list[int]]:
    """A run that is ended while its agent waits for the gated turn, once that was saved, and that is gone on with.

    ``look`` is shown it in between. Returns the run, and the turns that the model was asked for.
    """
    if name != "talker":
        await to_thread.run_sync(need_harness_installed, name)
    agent, script = agent_and_script(name)
    async with ScriptedModel(gated(script), title=None) as model:
        shared: dict[str, Any] = {"provider": provider, "progress": False}
        shared["model"] = swe.ModelEndpoint(base_url=model.url, model="scripted")
        start = partial(aio.run, task, agent, path=path, checkpoint_every=0.5, **shared, **options)
        await saved_within_the_call(start, path, model)
        with await aio.open_run(path) as stopped:
            look(stopped)
        model.open_gate("open")
        run = await aio.resume(path, agent=agent if name == "talker" else None, **shared)
        return run, model.turns


async def saved_within_the_call(run_it: Callable[[], Awaitable[object]], path: Path, model: ScriptedModel) -> None:
    """Let a run go until its agent waits for the gated turn, and a checkpoint was saved meanwhile; then end it."""
    await stopped_when(_saved_within(path, model), run_it)


def _saved_within(path: Path, model: ScriptedModel) -> Callable[[], bool]:
    """Whether the model was asked for the gated turn, and two checkpoints came since: one may have begun before."""
    known: list[int] = []

    def is_so() -> bool:
        if len(model.turns) > GATED and not known:
            known.append(all_saves(path))
        return bool(known) and all_saves(path) >= known[0] + 2

    return is_so


@pytest.mark.parametrize("name", ["talker", "mini-swe-agent"])
async def test_no_call_before_the_restored_boundary_is_made_again(
    name: str, local_provider: LocalProvider, task: Task, tmp_path: Path
) -> None:
    def look(stopped: Run) -> None:
        newest = stopped.checkpoints.kept[-1]
        assert newest.phases_s["prepare"] < 1, "it does not wait for the model"
        (held,) = newest.inspect()
        assert held.next == "invoke_agent"

    run, turns = await cut_within_a_call(name, local_provider, task, tmp_path / "run", look=look)
    with run:
        check_result(run, task)
    assert turns[:2] == [0, 1]
    assert sorted(set(turns)) == list(range(len(agent_and_script(name)[1])))
    assert {turn for turn in turns if turns.count(turn) > 1} == {GATED}, "only the call that was cut is made again"


def check_result(run: Run, task: Task) -> None:
    rollout = run.rollouts[task.instance_id]
    assert (rollout.status, rollout.attempt) == ("resolved", 2), rollout.line
    assert "+step 1\n+step 2\n" in rollout.patch.text
    assert rollout.patch.text.count("+step") == 2
    assert run.checkpoints.kept == []


@pytest.mark.parametrize("name", ["talker", "mini-swe-agent"])
async def test_what_is_used_of_the_model_is_not_given_back_by_a_restore(
    name: str, local_provider: LocalProvider, task: Task, tmp_path: Path
) -> None:
    """Two calls before, one after: the allowance of three is spent, and what is in the tree is graded."""
    run, _turns = await cut_within_a_call(name, local_provider, task, tmp_path / "run", max_calls_per_attempt=3)
    with run:
        rollout = run.rollouts[task.instance_id]
        assert (rollout.status, rollout.attempt) == ("resolved", 2), rollout.line
        assert rollout.outcome is not None
        assert set(rollout.outcome.flags) == {"agent_step_limit", "model_allowance_spent"}
        assert [call.attempt for call in rollout.model_calls if call.status == 200] == [1, 1, 2]


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


class Deaf(Talker):
    """Asks for a long answer, never reads it, and works on."""

    name: ClassVar[str] = "deaf"

    async def run(self, episode: Episode) -> AgentEnd:
        assert episode.model is not None
        headers = {"authorization": f"Bearer {episode.model.api_key.get_secret_value()}"}
        body = {"model": episode.model.name, "messages": [{"role": "user", "content": "go"}]}
        url = f"{episode.model.base_url}/chat/completions"
        async with httpx.AsyncClient(headers=headers, timeout=60) as client, client.stream("POST", url, json=body):
            for number in range(15):
                await episode.boundary({"number": number})
                await anyio.sleep(0.1)
        await episode.box.exec(COMMANDS[-1])
        return AgentEnd()


async def test_an_answer_that_nobody_reads_holds_no_checkpoint_up(
    local_provider: LocalProvider, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swe_sdk.runs.checkpoints.census.PATIENCE_S", 0.3)
    async with ScriptedModel([say("long", padding_bytes=64 << 20)], title=None) as model:
        run = await aio.run(
            task,
            Deaf(),
            model=swe.ModelEndpoint(base_url=model.url, model="scripted"),
            provider=local_provider,
            path=tmp_path / "run",
            checkpoint_every=0.2,
            progress=False,
        )
    with run:
        assert run.metrics.resolved == 1
        held = [one for one in run.checkpoints if one.snapshots == 1]
        assert held, "it is held where it stands"
        assert all(one.phases_s["prepare"] < 10 for one in held)
