"""Everything that a run needs, checked before anything is made."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypedDict

from pydantic import BaseModel, SecretStr

from swe_sdk.agents.contract import Agent
from swe_sdk.agents.gateway.endpoint import ModelEndpoint
from swe_sdk.agents.gateway.settings import ModelAllowance
from swe_sdk.agents.registry import agent_names, make_agent
from swe_sdk.config.model import ModelConfig, RunConfig
from swe_sdk.config.resolve import ConfigLike, resolve_config
from swe_sdk.errors import InputError
from swe_sdk.executors.policy_ref import policy_ref
from swe_sdk.executors.provider_ref import provider_on
from swe_sdk.executors.registry import require_executor
from swe_sdk.model.budget import Budget
from swe_sdk.model.policy import Policy
from swe_sdk.recipes.taskset import TaskSet
from swe_sdk.rollouts.settings import RolloutSettings, RunLimits
from swe_sdk.runs.folder import RunPlan
from swe_sdk.runs.given import TasksLike, given_tasks, require_given
from swe_sdk.runs.remote_verifier import require_url
from swe_sdk.sandbox.contract import Limits, SandboxProvider
from swe_sdk.sandbox.registry import named_provider


@dataclass(frozen=True)
class Setup:
    """A run that could begin."""

    plan: RunPlan
    tasks: TaskSet
    agent: Agent
    provider: SandboxProvider | str
    policy: Policy
    endpoint: ModelEndpoint | None
    owns_provider: bool = False
    """Whether the provider was made for this run, and is closed with it."""

    @property
    def config(self) -> RunConfig:
        """Its settings."""
        return self.plan.config


def set_up(
    tasks: TasksLike,
    agent: Agent | str | None = None,
    *,
    provider: SandboxProvider | str | None = None,
    policy: Policy | str | None = None,
    model: ModelEndpoint | ModelConfig | None = None,
    config: ConfigLike = None,
    preset: str | None = None,
    name: str = "",
    handed_over: tuple[str, ...] = (),
    **settings: Any,
) -> Setup:
    """Resolve the configuration, load the tasks and make the agent. Raises ``InputError`` for whatever is wrong.

    ``handed_over`` names further objects that the run cannot do without, and that only the caller can make again.
    """
    require_given(agent=agent, provider=provider, policy=policy, model=model)
    given = {key: value for key, value in settings.items() if value is not None}
    if agent is not None and not isinstance(agent, str):
        given |= _settings_of(agent)
    resolved = resolve_config(
        config,
        preset=preset,
        agent=agent if isinstance(agent, str | None) else agent.name,
        provider=provider if isinstance(provider, str | None) else provider.name,
        policy=policy if isinstance(policy, str | None) else policy.name,
        model=None if model is None else _model_config(model).model_dump(exclude_unset=True),
        **given,
    )
    loaded = task_set(tasks)
    objects = {"agent": None if "agent_settings" in given else agent, "provider": provider}
    plan = RunPlan(
        config=resolved.config,
        origins=dict(resolved.origins),
        name=str(name),
        dataset=loaded.name,
        given=(*handed_over, *(what for what, each in objects.items() if not isinstance(each, str | None))),
        policy_lines=() if policy is None else policy_ref(policy).lines,
    )
    return from_plan(plan, loaded, agent=agent, provider=provider, model=model)


def from_plan(
    plan: RunPlan,
    tasks: TaskSet,
    *,
    agent: Agent | str | None = None,
    provider: SandboxProvider | str | None = None,
    model: ModelEndpoint | ModelConfig | None = None,
) -> Setup:
    """A run by its plan. What the plan has by name only is made; raises ``InputError`` where that cannot be."""
    made = _agent(plan.config, agent)
    chosen = plan.config.provider if provider is None else provider
    if isinstance(chosen, str) and chosen != "auto":
        named_provider(chosen)
    is_own = isinstance(chosen, str) and plan.config.base_image is not None
    if isinstance(chosen, str) and plan.config.base_image is not None:
        chosen = provider_on(chosen, plan.config.base_image)
    if plan.config.verifier is not None:
        require_url(plan.config.verifier)
    if "executor" not in plan.given:
        require_executor(plan.config.executor)
    return Setup(plan, tasks, made, chosen, plan.policy, _endpoint(plan.config, model), is_own)


def task_set(tasks: TasksLike) -> TaskSet:
    """Tasks in whatever form they come; ``InputError`` where there are none, or two share an id."""
    loaded = given_tasks(tasks)
    if not loaded:
        raise InputError("there are no tasks to run", remedy="give at least one")
    if len(set(loaded.ids)) != len(loaded):
        raise InputError("two tasks have the same id", remedy="give samples=2 to run a task twice")
    return loaded


def rollout_settings(config: RunConfig, provider: str) -> RolloutSettings:
    """What the engine is told about stages; ``provider`` is the name of the one that was chosen."""
    memory = config.memory_limit_mib
    if memory is None and provider == "apptainer":
        memory = config.apptainer_memory_limit_mib
    return RolloutSettings(
        build_timeout_s=config.build_timeout_s,
        seed_timeout_s=config.seed_timeout_s,
        agent_timeout_s=config.agent_timeout_s,
        command_timeout_s=config.command_exec_timeout_s,
        close_timeout_s=config.close_timeout_s,
        verify_timeout_s=config.verify_timeout_s,
        teardown_timeout_s=config.teardown_timeout_s,
        retries=config.retries,
        patch_mode=config.patch_mode,
        limits=Limits(memory_mib=memory),
    )


def run_limits(config: RunConfig) -> RunLimits:
    """How much happens at once."""
    return RunLimits(
        episodes=config.limit, boxes=config.max_boxes, creates=config.max_creates, model_calls=config.max_model_calls
    )


class Terms(TypedDict):
    """What the engine is told of a run, in this process as on a worker's node."""

    limits: RunLimits
    budget: Budget
    settings: RolloutSettings
    policy: Policy


def terms(setup: Setup, provider: str) -> Terms:
    """As configured; ``provider`` is the name of the one that was chosen."""
    config = setup.config
    return Terms(
        limits=run_limits(config),
        budget=rollout_budget(config),
        settings=rollout_settings(config, provider),
        policy=setup.policy,
    )


def model_allowance(config: RunConfig) -> ModelAllowance:
    """What an attempt may use of the model."""
    return ModelAllowance(calls=config.max_calls_per_attempt, tokens=config.max_tokens_per_attempt)


def rollout_budget(config: RunConfig) -> Budget:
    """What each rollout may spend."""
    return Budget(total_s=config.budget_s)


def _settings_of(agent: Agent) -> dict[str, Any]:
    """What makes an equal agent by its name, so that the run can go on without the caller; else its version."""
    if isinstance(agent, BaseModel) and agent.name in agent_names():
        settings = agent.model_dump(mode="json")
        try:
            if make_agent(agent.name, **settings) == agent:
                return {"agent_settings": settings}
        except InputError:
            pass  # it holds what JSON cannot, such as a key
    return {"agent_version": agent.version or None}


def _agent(config: RunConfig, agent: Agent | str | None) -> Agent:
    if agent is not None and not isinstance(agent, str):
        return agent
    made = make_agent(config.agent, **config.agent_settings)
    if config.agent_version is not None and made.version != config.agent_version:
        raise InputError(
            f"agent_version={config.agent_version!r} is asked for, and {made.name} is of version {made.version}",
            remedy="leave agent_version out, or install that version",
        )
    return made


def _model_config(model: ModelEndpoint | ModelConfig) -> ModelConfig:
    return model if isinstance(model, ModelConfig) else ModelConfig(base_url=model.base_url, name=model.model)


def _endpoint(config: RunConfig, model: ModelEndpoint | ModelConfig | None) -> ModelEndpoint | None:
    """The user's endpoint, its key out of the environment unless it was handed over."""
    if isinstance(model, ModelEndpoint):
        return model
    if config.model is None:
        return None
    key = os.environ.get(config.model.api_key_env)
    return ModelEndpoint(
        base_url=config.model.base_url,
        model=config.model.name,
        api_key=None if key is None else SecretStr(key),
    )
