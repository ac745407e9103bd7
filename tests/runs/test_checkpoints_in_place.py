"""An agent that drives itself in its box stands there while it waits for the model: nobody ends it for a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import anyio
import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Tier
from swe_sdk.agents.in_box.watched import park_in_place
from swe_sdk.model.record import Record
from swe_sdk.model.task import Task
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel, say
from tests.runs.checkpointed import events
from tests.runs.test_checkpoints_model import COMMANDS, GATED, check_result, gated, saved_within_the_call

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
PROGRAM = """
import json, os, urllib.request
path, url, name = "/var/tmp/messages.json", os.environ["URL"] + "/chat/completions", os.environ["NAME"]
messages = json.load(open(path)) if os.path.exists(path) else [{"role": "user", "content": "go"}]
while True:
    body = json.dumps({"model": name, "messages": messages}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["KEY"]}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        said = json.load(answer)["choices"][0]["message"]["content"]
    if said == "done":
        break
    os.system(said)
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": "and now?"}]
    with open(path + ".new", "w") as file:
        json.dump(messages, file)
    os.replace(path + ".new", path)
"""


class Resident(Record):
    """A program in the box that talks to the model; its whole state is a file there."""

    name: ClassVar[str] = "resident"
    version: ClassVar[str] = "1"
    tier: ClassVar[Tier] = "exact"
    needs: ClassVar[AgentNeeds] = AgentNeeds(egress="model")

    async def run(self, episode: Episode) -> AgentEnd:
        model = episode.model
        assert model is not None
        assert model.box_url is not None
        env = {"URL": model.box_url, "NAME": model.name, "KEY": model.api_key.get_secret_value()}
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(park_in_place, episode, dict)
            result = await episode.box.exec(["python3", "-c", PROGRAM], env=env)
            tasks.cancel_scope.cancel()
        return AgentEnd(reason="done" if result.ok else "error", message=result.stderr)


def _snapshots(path: Path) -> int:
    return sum(one["kind"] == "snapshot_taken" for one in events(path))


async def test_it_reaches_the_model_after_each_checkpoint(
    local_provider: LocalProvider, task: Task, tmp_path: Path
) -> None:
    """Its box is frozen as it is: a new first process would have a new network, without the way to the model."""
    path, said = tmp_path / "run", (*COMMANDS, "done")
    script = [say(words).model_copy(update={"gate": str(turn)}) for turn, words in enumerate(said)]

    async def answer_when_saved() -> None:
        for turn in range(len(script)):
            while _snapshots(path) <= turn:
                await anyio.sleep(0.05)
            model.open_gate(str(turn))

    async with ScriptedModel(script, title=None) as model, anyio.create_task_group() as tasks:
        tasks.start_soon(answer_when_saved)
        run = await aio.run(
            task,
            Resident(),
            model=swe.ModelEndpoint(base_url=model.url, model="scripted"),
            provider=local_provider,
            path=path,
            checkpoint_every=0.3,
            progress=False,
        )
        turns = model.turns
    with run:
        rollout = run.rollouts[task.instance_id]
        assert rollout.status == "resolved", rollout.line
        assert "+step 1\n+step 2\n" in rollout.patch.text
        assert rollout.row.parked_s > 0
    assert turns == [0, 1, 2, 3], "no call is made twice, and none is lost"


async def test_it_goes_on_in_another_process(local_provider: LocalProvider, task: Task, tmp_path: Path) -> None:
    path, script = tmp_path / "run", [*map(say, COMMANDS), say("done")]
    async with ScriptedModel(gated(script), title=None) as model:
        endpoint = swe.ModelEndpoint(base_url=model.url, model="scripted")

        async def first() -> None:
            await aio.run(
                task,
                Resident(),
                model=endpoint,
                provider=local_provider,
                path=path,
                checkpoint_every=0.5,
                progress=False,
            )

        await saved_within_the_call(first, path, model)
        with await aio.open_run(path) as run:
            newest = run.checkpoints.kept[-1]
            assert newest.phases_s["prepare"] < 1, "it does not wait for the model"
            (held,) = newest.inspect()
            assert (held.next, held.agent_state) == ("invoke_agent", {})
        model.open_gate("open")
        run = await aio.resume(path, provider=local_provider, model=endpoint, progress=False, agent=Resident())
        turns = model.turns
    with run:
        check_result(run, task)
    assert sorted(set(turns)) == list(range(len(script)))
    assert {turn for turn in turns if turns.count(turn) > 1} == {GATED}, "only the call that was cut is made again"
