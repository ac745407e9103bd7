"""Agents by name, with their settings, and those of other packages."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import pytest

import swe_sdk.agents
from swe_sdk.agents import registry
from swe_sdk.agents.command import CommandAgent
from swe_sdk.agents.contract import Agent, AgentNeeds, AgentTask, TakesGold
from swe_sdk.agents.gold import GoldAgent
from swe_sdk.agents.noop import NoopAgent
from swe_sdk.agents.registry import agent_names, make_agent
from swe_sdk.agents.scripted import Exec, Fail, ScriptedAgent, Wait, Write
from swe_sdk.errors import InputError, UnknownAgent
from swe_sdk.model.patch import Patch
from tests.rollouts.world import make_task

OURS = {
    "command": {"command": "true"},
    "gold": {},
    "noop": {},
    "scripted": {"actions": [{"do": "exec", "command": "ls"}, {"do": "wait", "seconds": 1}]},
}


@pytest.mark.parametrize("name", OURS)
def test_agents_are_made_by_name_and_keep_the_contract(name: str) -> None:
    agent = make_agent(name, **OURS[name])
    assert isinstance(agent, Agent)
    assert agent.name == name
    assert agent.version
    assert agent.tier in ("exact", "step", "paused", "restart")
    assert isinstance(agent.needs, AgentNeeds)
    assert make_agent(agent) is agent
    assert name in agent_names()


@pytest.mark.parametrize(
    "agent",
    [
        NoopAgent(),
        GoldAgent(submit=True),
        CommandAgent(command=("run", "me"), env={"A": "b"}, model=True),
        ScriptedAgent(
            actions=(Exec(command="ls", check=True), Write(path="x", data=b"\xff"), Wait(seconds=0.5), Fail())
        ),
    ],
    ids=lambda agent: agent.name,
)
def test_settings_survive_a_trip_as_json(agent: Any) -> None:
    """For records of runs, and for machines elsewhere."""
    assert type(agent).model_validate_json(agent.model_dump_json()) == agent


def test_unknown_names_and_settings_are_refused() -> None:
    with pytest.raises(UnknownAgent, match="scripted"):
        make_agent("scriptd")
    for name, settings in (("noop", {"speed": 1}), ("command", {}), ("command", {"command": 1})):
        with pytest.raises(InputError, match=name):
            make_agent(name, **settings)
    with pytest.raises(InputError, match="by name"):
        make_agent(NoopAgent(), speed=1)


def test_other_packages_bring_agents_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = importlib.metadata.EntryPoint("theirs", "swe_sdk.agents.noop:NoopAgent", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    registry._others.cache_clear()
    try:
        assert "theirs" in agent_names()
        assert isinstance(make_agent("theirs"), NoopAgent)
    finally:
        monkeypatch.undo()
        registry._others.cache_clear()


def test_the_package_has_them_by_class() -> None:
    assert swe_sdk.agents.ScriptedAgent is ScriptedAgent
    assert swe_sdk.agents.CommandAgent is CommandAgent
    assert set(swe_sdk.agents.__all__) <= set(dir(swe_sdk.agents))
    assert sorted(swe_sdk.agents.__all__) == swe_sdk.agents.__all__
    with pytest.raises(AttributeError, match="Nothing"):
        swe_sdk.agents.Nothing  # noqa: B018


def test_only_gold_takes_gold() -> None:
    assert isinstance(GoldAgent(), TakesGold)
    assert not isinstance(NoopAgent(), TakesGold)
    assert GoldAgent().with_gold(Patch.of("x")).patch == Patch.of("x")


def test_what_an_agent_sees_of_a_task_is_public() -> None:
    task = make_task(metadata={"difficulty": "easy"}, hints="look there")
    seen = AgentTask.of(task)
    assert (seen.hints, seen.metadata, seen.workdir) == ("look there", {"difficulty": "easy"}, "/testbed")
    assert set(AgentTask.model_fields) & {"grading", "gold_patch", "test_patch"} == set()
