"""Every setting of a run arrives where it counts."""

from __future__ import annotations

import pytest

from swe_sdk.agents import ScriptedAgent
from swe_sdk.agents.harnesses.pinned import HARNESSES
from swe_sdk.agents.registry import make_agent
from swe_sdk.agents.scripted import Write
from swe_sdk.config import RunConfig, resolve_config
from swe_sdk.config.model import SETTINGS
from swe_sdk.config.presets import AGENTS
from swe_sdk.errors import InputError
from swe_sdk.model.task import Task
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.runs.folder import RunPlan
from swe_sdk.runs.setup import from_plan, rollout_budget, rollout_settings, run_limits, set_up, task_set

ELSEWHERE = {
    "preset",
    "agent",
    "agent_version",
    "agent_settings",
    "model",
    "samples",
    "budget_s",
    "deadline_s",
    "tests_timeout_s",
    "provider",
    "base_image",
    "executor",
    "limit",
    "max_boxes",
    "max_creates",
    "max_model_calls",
    "max_calls_per_attempt",
    "max_tokens_per_attempt",
    "checkpoint_every_s",
    "keep_last",
    "keep_every",
    "keep_best",
    "snapshot_share",
    "checkpoint_wait_s",
    "policy",
    "verifier",
}
"""Settings that are no part of the engine's own; each is looked at by another test of this folder."""


def config(**changes: object) -> RunConfig:
    return resolve_config(changes).config


def test_the_engine_gets_every_setting() -> None:
    names = [name for name in SETTINGS if name.endswith("_timeout_s")]
    values = {name: float(number) for number, name in enumerate(names, start=100)}
    told = rollout_settings(config(**values, retries=3, patch_mode="committed", memory_limit_mib=512), "local")
    for name in set(names) - ELSEWHERE:
        mine = "command_timeout_s" if name == "command_exec_timeout_s" else name
        assert getattr(told, mine) == values[name], name
    assert (told.retries, told.patch_mode, told.limits.memory_mib) == (3, "committed", 512)
    engine = {"command_exec_timeout_s", "retries", "patch_mode", "memory_limit_mib", "apptainer_memory_limit_mib"}
    assert set(SETTINGS) - ELSEWHERE - engine <= set(RolloutSettings.model_fields), "a new one is not handed on"


@pytest.mark.parametrize(
    ("provider", "settings", "memory_mib"),
    [
        ("local", {}, None),
        ("docker", {}, None),
        ("apptainer", {}, 32768),
        ("apptainer", {"apptainer_memory_limit_mib": 4096}, 4096),
        ("apptainer", {"memory_limit_mib": 1024}, 1024),
    ],
)
def test_memory_of_sandboxes(provider: str, settings: dict[str, int], memory_mib: int | None) -> None:
    assert rollout_settings(config(**settings), provider).limits.memory_mib == memory_mib


def test_limits_and_budget() -> None:
    told = config(limit=3, max_boxes=5, max_creates=2, max_model_calls=7, budget_s="30m")
    assert run_limits(told).model_dump() == {"episodes": 3, "boxes": 5, "creates": 2, "model_calls": 7}
    assert rollout_budget(told).total_s == 1800.0


def test_pinned_versions_are_those_of_the_adapters() -> None:
    assert {name: layer["agent_version"] for name, layer in AGENTS.items()} == {
        name: harness.version for name, harness in HARNESSES.items()
    }
    for name, layer in AGENTS.items():
        assert make_agent(name).version == layer["agent_version"]


def test_an_agent_that_can_be_made_by_name_is_kept_by_name(task: Task) -> None:
    agent = ScriptedAgent(actions=(Write(path="a", content="caf\u00e9"),))
    plan = set_up(task, agent, provider="local").plan
    assert plan.given == ()
    again = RunPlan.model_validate_json(plan.model_dump_json())
    assert from_plan(again, task_set(task)).agent == agent


def test_another_version_than_the_pinned_one_is_refused(task: Task) -> None:
    with pytest.raises(InputError, match=r"2\.4\.5"):
        set_up(task, "mini-swe-agent", agent_version="2.4.5", provider="local")


def test_a_base_image_is_for_container_providers(task: Task) -> None:
    made = set_up(task, "noop", provider="docker", base_image="tools:1")
    assert (made.provider.name, made.provider.base_image, made.owns_provider) == ("docker", "tools:1", True)  # type: ignore[union-attr]
    apptainer = set_up(task, "noop", provider="apptainer", base_image="tools:1").provider
    assert apptainer.options.base_image == "tools:1"  # type: ignore[union-attr]
    for provider in ("local", "auto"):
        with pytest.raises(InputError, match="container providers"):
            set_up(task, "noop", provider=provider, base_image="tools:1")
