"""Providers whose boxes cannot listen: agents that are driven from here work there; others are refused at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import swe_sdk as swe
from swe_sdk import aio
from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode
from swe_sdk.config import ModelConfig
from swe_sdk.errors import CapabilityMissing
from swe_sdk.runs.model_way import require_way
from swe_sdk.runs.setup import set_up
from swe_sdk.testing import ScriptedModel, say
from tests.rollouts.world import ANSWER, FakeVerifier, FunctionAgent, make_provider, make_task

pytestmark = pytest.mark.anyio
TASK = make_task()
HERE, IN_BOX = AgentNeeds(egress="model", model_from_box=False), AgentNeeds(egress="model")


async def look_and_answer(episode: Episode) -> AgentEnd:
    assert episode.model is not None
    assert episode.model.base_url.startswith("http://127.0.0.1:")
    assert episode.model.box_url is None
    await episode.box.write(ANSWER, b"42")
    return AgentEnd()


async def run(needs: AgentNeeds, path: Path, model: ScriptedModel, **settings: Any) -> swe.Run:
    return await aio.run(
        TASK,
        FunctionAgent(look_and_answer, needs),  # type: ignore[arg-type]
        model=swe.ModelEndpoint(base_url=model.url, model=model.model),
        provider=make_provider(),
        verifier=FakeVerifier(),
        path=path,
        progress=False,
        **settings,
    )


async def test_an_agent_that_is_driven_from_here_works(tmp_path: Path) -> None:
    async with ScriptedModel([say("x")]) as model:
        with await run(HERE, tmp_path / "run", model) as done:
            assert done.metrics.resolved == 1


async def test_one_that_calls_from_its_box_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    async with ScriptedModel([say("x")]) as model:
        with pytest.raises(CapabilityMissing, match=r"calls the model from its box.*mini-swe-agent"):
            await run(IN_BOX, tmp_path / "run", model)
        assert model.calls == ()
    assert not (tmp_path / "run").exists()


async def test_unless_it_is_said_where_boxes_find_the_gateway() -> None:
    """A file says where; the call says which model."""
    told = {"model": {"service_url": "http://10.1.2.3:9000", "gateway_host": "0.0.0.0", "gateway_port": 9000}}
    endpoint = swe.ModelEndpoint(base_url="http://127.0.0.1:1/v1", model="m")
    agent: Any = FunctionAgent(look_and_answer, IN_BOX)
    setup = set_up(TASK, agent, model=endpoint, config=told)
    assert setup.config.model == ModelConfig(base_url="http://127.0.0.1:1/v1", name="m", **told["model"])
    require_way(setup, make_provider())
    loopback = set_up(TASK, agent, model=endpoint, config={"model": {"service_url": "http://127.0.0.1:9000"}})
    with pytest.raises(CapabilityMissing, match="loopback"):
        require_way(loopback, make_provider())
