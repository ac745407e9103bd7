"""Runs whose agents talk to a model: the gateway stands between, and its calls are in the run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.agents import CommandAgent
from swe_sdk.agents.contract import AgentEnd, AgentNeeds, EndReason, Episode, Step
from swe_sdk.config import ModelConfig
from swe_sdk.errors import InputError
from swe_sdk.model.task import Task
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.testing import ScriptedModel, say

pytestmark = pytest.mark.anyio
KEY = "sk-the-users-own"
ANSWER = "sed -i 's/answer = 41/answer = 42/' src.txt"


class Obedient:
    """Does in the box what the model says."""

    name, version, tier = "obedient", "1", "restart"
    needs = AgentNeeds(egress="model", model_from_box=False)

    async def run(self, episode: Episode) -> AgentEnd:
        assert episode.model is not None
        headers = {"authorization": f"Bearer {episode.model.api_key.get_secret_value()}"}
        body = {"model": episode.model.name, "messages": [{"role": "user", "content": "how?"}]}
        async with httpx.AsyncClient(headers=headers) as client:
            answer = await client.post(f"{episode.model.base_url}/chat/completions", json=body)
        command = answer.json()["choices"][0]["message"]["content"]
        episode.record(Step(n=1, kind="model", summary=command, tokens_in=10, tokens_out=5))
        await episode.box.exec(command)
        return AgentEnd()


def no_key_in(path: Path) -> bool:
    return not [file for file in path.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()]


async def test_calls_of_the_model_are_part_of_the_run(local_provider: LocalProvider, tasks: TaskSet) -> None:
    async with ScriptedModel([say(ANSWER)], title=None, api_key=KEY) as model:
        endpoint = swe.ModelEndpoint(base_url=model.url, model="scripted", api_key=SecretStr(KEY))
        run = await aio.run(tasks, Obedient(), model=endpoint, provider=local_provider, progress=False)  # type: ignore[arg-type]
    with run:
        assert run.metrics.resolved == 3
        assert run.row.model == "scripted"
        rollout = run.rollouts["tiny__answer-1"]
        (call,) = rollout.model_calls
        assert (call.status, call.model, rollout.row.model_calls) == (200, "scripted", 1)
        assert (rollout.row.tokens_in, rollout.row.tokens_out) == (10, 5)
        assert any("request" in name for name in rollout.logs)
        assert run.config.model == ModelConfig(base_url=model.url, name="scripted")
        assert no_key_in(run.path), "a key is never on disk"


async def test_the_key_is_read_from_the_variable_that_is_named(
    local_provider: LocalProvider, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_MODEL_KEY", KEY)
    async with ScriptedModel([say(ANSWER)], title=None, api_key=KEY) as model:
        settings = {"model": {"base_url": model.url, "name": "scripted", "api_key_env": "TEST_MODEL_KEY"}}
        run = await aio.run(task, Obedient(), config=settings, provider=local_provider, progress=False)  # type: ignore[arg-type]
    with run:
        assert run.metrics.resolved == 1
        assert no_key_in(run.path)


async def test_a_program_in_the_box_reaches_the_model(local_provider: LocalProvider, task: Task) -> None:
    ask = """
import json, os, urllib.request
body = {"model": os.environ["NEMO_GYM_MODEL"], "messages": [{"role": "user", "content": "how?"}]}
key = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), key)))
os.system(answer["choices"][0]["message"]["content"])
"""
    agent = CommandAgent(command=("python3", "-c", ask), model=True)
    async with ScriptedModel([say(ANSWER)], title=None, api_key=KEY) as model:
        endpoint = swe.ModelEndpoint(base_url=model.url, model="scripted", api_key=SecretStr(KEY))
        run = await aio.run(task, agent, model=endpoint, provider=local_provider, progress=False)
    with run:
        assert run.rollouts[task.instance_id].resolved, run.rollouts[task.instance_id].log("output.log").tail()
        assert len(run.rollouts[task.instance_id].model_calls) == 1


async def test_an_endpoint_that_is_gone_is_a_mask(local_provider: LocalProvider, task: Task) -> None:
    async with ScriptedModel([say(ANSWER)]) as model:
        url = model.url
    endpoint = swe.ModelEndpoint(base_url=url, model="scripted")
    run: Run = await aio.run(
        task,
        Obedient(),  # type: ignore[arg-type]
        model=endpoint,
        provider=local_provider,
        retries=0,
        progress=False,
    )
    with run:
        assert run.metrics.masked_by_kind == {"model_unreachable": 1}
        assert run.metrics.mean_reward is None


class Insatiable(Obedient):
    """Asks until it is refused, and then says what ``reason`` says."""

    def __init__(self, reason: EndReason) -> None:
        self.reason = reason

    async def run(self, episode: Episode) -> AgentEnd:
        try:
            while True:
                await super().run(episode)
        except KeyError:
            return AgentEnd(reason=self.reason, message="refused")


@pytest.mark.parametrize(
    ("limit", "calls"),
    [({"max_calls_per_attempt": 3}, 3), ({"max_tokens_per_attempt": 16}, 2)],
    ids=["calls", "tokens"],
)
@pytest.mark.parametrize("reason", ["error", "done"])
async def test_an_attempt_gets_no_more_of_the_model_than_it_may_use(
    limit: dict[str, int], calls: int, reason: EndReason, local_provider: LocalProvider, task: Task
) -> None:
    """And what it has done by then is graded: of a limit nothing is masked."""
    async with ScriptedModel([say(ANSWER)], title=None) as model:
        endpoint = swe.ModelEndpoint(base_url=model.url, model="scripted")
        agent: Any = Insatiable(reason)
        run = await aio.run(
            task, agent, model=endpoint, provider=local_provider, policy="nemo_gym", progress=False, **limit
        )
        assert model.turns == [0] * calls
    with run:
        rollout = run.rollouts[task.instance_id]
        outcome = rollout.outcome
        assert outcome is not None
        assert (outcome.status, outcome.mask and outcome.mask.kind) == (
            ("resolved", None) if reason == "done" else ("masked", "step_limit")
        ), "NeMo Gym's rule takes no success at a limit"
        assert "model_allowance_spent" in outcome.flags
        assert ("agent_step_limit" in outcome.flags) == (reason == "error")
        assert len(rollout.model_calls) == calls
        assert {name: getattr(run.config, name) for name in limit} == limit


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "https://user@host/v1", "ftp://host"])
async def test_an_endpoint_that_is_no_url_is_refused(task: Task, url: str) -> None:
    with pytest.raises(InputError, match=re.escape("model")):
        await aio.run(task, "scripted", config={"model": {"base_url": url, "name": "m"}})
