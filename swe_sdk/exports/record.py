"""A finished rollout as one self-contained record: what exports are made of."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.record import Record


class Turn(Record):
    """One step of the agent, in numbers."""

    kind: str
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0


class RolloutRecord(Record):
    """One finished rollout, its patch included and its logs left out.

    Paths in ``outcome.artifacts`` lead to files of the run that it came from.
    """

    rollout_id: str
    instance_id: str
    sample: int = Field(default=0, ge=0)
    attempt: int = Field(default=1, ge=1)
    """The one that counts."""
    agent: str = ""
    agent_version: str = ""
    model: str = ""
    problem_statement: str = ""
    outcome: Outcome
    patch: Patch
    end_reason: str = ""
    """How the agent ended, as :class:`~swe_sdk.agents.contract.AgentEnd` says it."""
    budget: Budget = Budget()
    queued_s: float = 0.0
    stages_s: dict[str, float] = Field(default_factory=dict)
    """Seconds in each stage that it reached."""
    stages_at: dict[str, float] = Field(default_factory=dict)
    """When each of them began, in Unix seconds."""
    turns: tuple[Turn, ...] = ()
    config: dict[str, Any] = Field(default_factory=dict)
    """The resolved configuration of the run."""

    def seconds_of(self, kind: str) -> float:
        """The seconds of all turns of one kind."""
        return sum(turn.seconds for turn in self.turns if turn.kind == kind)
