"""Whole rollouts: a program in a box without a network asks the model what to do, does it, and is graded."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk.agents.command import CommandAgent
from swe_sdk.agents.gateway.gateway import open_gateway
from swe_sdk.agents.gateway.settings import GatewaySettings
from swe_sdk.agents.model_endpoint import ModelEgress
from swe_sdk.rollouts.engine import run_rollout
from swe_sdk.rollouts.model_ledger import RunLedger
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.store.index import open_index
from swe_sdk.store.writer import RunWriter
from swe_sdk.testing import ScriptedModel, act, fail, say, use
from swe_sdk.testing.scripted.script import Script
from tests.agents.gateway.gates import REAL_KEY, endpoint_of

pytestmark = pytest.mark.anyio
AGENT = r"""
import json, os, subprocess, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
history = [{"role": "user", "content": open(os.environ["SWE_TASK_STATEMENT"]).read()}]
while True:
    body = {"model": os.environ["NEMO_GYM_MODEL"], "messages": history, "tools": tools}
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with opener.open(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=60) as reply:
        message = json.load(reply)["choices"][0]["message"]
    history.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        history.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
"""


def gold_script() -> list[object]:
    """The model writes the dataset's own solution, by a tool call."""
    patch = swe.load_tasks("mini")["mini__calc-1"].grading.gold_patch
    assert patch is not None
    command = f"git apply - <<'END_OF_PATCH'\n{patch.data.decode()}\nEND_OF_PATCH"
    return [act(use("bash", command=command)), act(use("bash", command="git status --short")), say("done")]


async def roll(
    script: Script, run: Path, local: LocalProvider, *, refused: bool = False
) -> tuple[swe.Outcome, ScriptedModel]:
    provider = LocalProvider(local.state)
    agent = CommandAgent(command=("python3", "-c", AGENT), model=True)
    settings = GatewaySettings(connect_tries=1, check_timeout_s=2, silence_timeout_s=3)
    try:
        async with ScriptedModel(script, api_key=REAL_KEY) as model:
            with RunWriter(run) as writer, model.refusing() if refused else nullcontext():
                async with open_gateway(endpoint_of(model), RunLedger(writer), settings=settings) as gateway:
                    result = await run_rollout(
                        swe.load_tasks("mini")["mini__calc-1"],
                        agent,
                        provider=provider,
                        model=ModelEgress(gateway),
                        journal=writer,
                        settings=RolloutSettings(retries=0),
                    )
                    assert gateway.sessions == ()
            return result.outcome, model
    finally:
        await provider.aclose()


async def test_a_program_that_asks_the_model_solves_the_task(tmp_path: Path, local_provider: LocalProvider) -> None:
    outcome, model = await roll(gold_script(), tmp_path / "run", local_provider)
    assert outcome.status == "resolved", outcome
    assert model.turns == [0, 1, 2]
    last = model.requests[-1].request
    assert last is not None
    assert last.says("M calc"), "what the tool printed came back"
    with open_index(tmp_path / "run") as index:
        page = index.model_calls("mini__calc-1.0")
        assert [(row.status, row.tokens_in, row.tokens_out) for row in page.rows] == [(200, 10, 5)] * 3


async def test_a_wrong_model_does_not(tmp_path: Path, local_provider: LocalProvider) -> None:
    script = [act(use("bash", command="echo '# nothing' >> README.md")), say("done")]
    outcome, _model = await roll(script, tmp_path / "run", local_provider)
    assert outcome.status == "unresolved"


async def test_an_endpoint_that_is_down_is_a_mask_before_a_token_is_spent(
    tmp_path: Path, local_provider: LocalProvider
) -> None:
    outcome, model = await roll(gold_script(), tmp_path / "run", local_provider, refused=True)
    assert outcome.mask is not None
    assert outcome.mask.kind == "model_unreachable"
    assert outcome.mask.retryable
    assert outcome.mask.evidence
    assert outcome.reward == 0.0
    assert model.calls == ()


@pytest.mark.parametrize(
    ("meets", "kind"),
    [
        (fail(500, message="out of memory"), "model_failed"),
        (say("too late", gate="never opened"), "model_unreachable"),
        (fail(cut="before_reply"), "model_unreachable"),
    ],
    ids=["500", "timeout", "broken"],
)
async def test_an_endpoint_that_fails_under_the_agent_is_a_mask(
    meets: object, kind: str, tmp_path: Path, local_provider: LocalProvider
) -> None:
    """The agent exits with an error of its own making; that the endpoint was at fault is the gateway's word."""
    outcome, model = await roll([gold_script()[0], meets], tmp_path / "run", local_provider)  # type: ignore[list-item]
    assert outcome.mask is not None
    assert (outcome.mask.kind, outcome.mask.stage, outcome.reward) == (kind, "agent", 0.0)
    assert model.turns[0] == 0


async def test_a_request_that_is_at_fault_itself_is_not(tmp_path: Path, local_provider: LocalProvider) -> None:
    """Such as one beyond the context window: the agent's doing, and what it has done is graded."""
    script = [gold_script()[0], fail(400, code="context_length_exceeded", message="too long")]
    outcome, _model = await roll(script, tmp_path / "run", local_provider)
    assert outcome.status == "resolved", outcome
