"""Everything that one rollout needs, and what of it a whole run shares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from swe_sdk.agents.contract import Agent
from swe_sdk.model.budget import Budget
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import Task
from swe_sdk.rollouts.environments import RunEnvironments
from swe_sdk.rollouts.live import LiveRollout, LiveRollouts
from swe_sdk.rollouts.meter import Clock
from swe_sdk.rollouts.plan import Planned
from swe_sdk.rollouts.ports import EventSink, ModelSource, Verifier
from swe_sdk.rollouts.settings import RolloutSettings
from swe_sdk.sandbox.admission import Admission
from swe_sdk.sandbox.contract import SandboxProvider


@dataclass(frozen=True)
class Shared:
    """What all rollouts of a run have in common."""

    agent: Agent
    provider: SandboxProvider
    environments: RunEnvironments
    settings: RolloutSettings
    policy: Policy
    budget: Budget
    verifier: Verifier
    model: ModelSource | None
    journal: EventSink
    admission: Admission
    lives: LiveRollouts
    clock: Clock
    on_progress: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Job:
    """One rollout: what all have in common, and what is its own."""

    shared: Shared
    planned: Planned
    live: LiveRollout

    @property
    def task(self) -> Task:
        """Its task."""
        return self.planned.task

    @property
    def rollout_id(self) -> str:
        """Its id."""
        return self.planned.rollout_id

    @property
    def settings(self) -> RolloutSettings:
        """The caps of its stages."""
        return self.shared.settings
