"""Where a rollout stands between two stages: all that is needed to go on from there."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from swe_sdk.agents.contract import AgentEnd
from swe_sdk.agents.gateway.settings import ModelUsage
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Outcome
from swe_sdk.model.patch import Patch
from swe_sdk.model.record import Record

RolloutStage = Literal["seed", "invoke_agent", "close_agent", "verify", "return"]
STAGES: tuple[RolloutStage, ...] = ("seed", "invoke_agent", "close_agent", "verify", "return")


class Bookmark(Record):
    """A boundary: ``next`` is the stage that has not begun yet (or, within the agent, goes on).

    ``invoke_agent`` and ``close_agent`` need the sandbox as it was: ``snapshot``, which whoever saves the bookmark has
    to fill in. Before (``seed``) there is no sandbox yet, and afterwards it is gone.
    """

    rollout_id: str
    attempt: int = Field(ge=1)
    next: RolloutStage
    budget: Budget
    agent_state: dict[str, Any] | None = None
    """What the agent gave to ``boundary`` last; None = it starts."""
    model_usage: ModelUsage | None = None
    """What the agent has used of its allowance of the model; None where it has used no model."""
    flags: tuple[str, ...] = ()
    """What is to be said of the outcome so far, such as ``transcript_truncated``."""
    end: AgentEnd | None = None
    """From ``close_agent`` on."""
    stopped: Literal["budget_spent", "timeout"] | None = None
    """Why the engine stopped the agent, if it did."""
    patch: Patch | None = None
    """From ``verify`` on."""
    outcome: Outcome | None = None
    """At ``return``."""
    snapshot: str | None = None
    """Of the agent's sandbox at this boundary."""
    base_commit: str | None = None
    """What patches of that sandbox are taken against."""
    environment_key: str | None = None
    """The environment that it was made of: on another machine, that must be the same. None in older bookmarks."""
    checkpoint_id: str | None = None
    """The checkpoint that it was read from."""
