"""What came of a rollout."""

from __future__ import annotations

from pydantic import Field

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.record import Record


class AttemptReport(Record):
    """One attempt at a rollout; those before the last were masked, and are kept as evidence."""

    attempt: int = Field(ge=1)
    end: AgentEnd | None = None
    """How the agent ended; None where it did not come to that."""
    mask: Mask | None = None
    budget: Budget = Budget()
    """What this attempt spent of what the rollout has."""
    stages_s: dict[str, float] = Field(default_factory=dict)
    """Seconds of work in each stage that it reached; time for which it was parked is left out."""
    queued_s: float = 0.0
    """Seconds that it waited to be admitted."""
    flags: tuple[str, ...] = ()
    commands: int = 0
    commands_s: float = 0.0
    """How many commands the agent ran in its box, and the seconds that they took."""


class RolloutResult(Record):
    """One rollout, finished: ``outcome`` is always there, masked where nothing could be measured.

    ``outcome.flags`` says where the agent's time ran out (``agent_timed_out``), it reached a limit of its own
    (``agent_step_limit``, ``agent_context_window``) or failed (``agent_failed``); ``outcome.evidence["agent"]`` how it
    ended, and ``outcome.evidence["earlier_rollout_attempts"]`` what was lost before.
    """

    rollout_id: str
    instance_id: str
    sample: int = 0
    attempt: int = Field(ge=1)
    """The one that counts."""
    agent: str
    agent_version: str = ""
    outcome: Outcome
    patch: Patch = EMPTY_PATCH
    attempts: tuple[AttemptReport, ...] = ()
    is_recorded: bool = True
    """Whether its end is on disk; else whoever goes on with the run finds it unfinished."""

    @property
    def reward(self) -> float:
        """1.0 if resolved, else 0.0."""
        return self.outcome.reward

    @property
    def last(self) -> AttemptReport:
        """The attempt that counts."""
        return self.attempts[-1]

    @property
    def budget(self) -> Budget:
        """What the attempt that counts spent."""
        return self.attempts[-1].budget if self.attempts else Budget()
