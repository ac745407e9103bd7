"""How long a rollout may take, how often it is tried, and how many run at once."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Limits
from swe_sdk.sandbox.tree import PatchMode

PatchSource = Literal["agent_or_tree", "tree"]


class RolloutSettings(Record):
    """Caps of the stages, in seconds, and what is done in them. The budget of a rollout is no part of it.

    A stage ends at its own cap or at the end of the budget, whichever comes first. ``close_agent`` and ``verify`` are
    charged to the budget as well, but where it is spent they still get their caps: they only measure what is there.
    """

    build_timeout_s: float = Field(default=1800.0, gt=0)
    """For an environment that must be built first. Charged to nobody's budget: all of its rollouts share it."""
    seed_timeout_s: float = Field(default=600.0, gt=0)
    """For making the agent's sandbox."""
    agent_timeout_s: float | None = Field(default=1800.0, gt=0)
    """For the agent's own work; what is there when it ends is graded."""
    command_timeout_s: float = Field(default=300.0, gt=0)
    """For one command of a host-driven agent, unless the agent says otherwise."""
    close_timeout_s: float = Field(default=600.0, gt=0)
    """For taking the patch."""
    verify_timeout_s: float = Field(default=5400.0, gt=0)
    """For the verifier's answer, its own attempts included."""
    teardown_timeout_s: float = Field(default=60.0, gt=0)
    """How long an agent that was stopped, and then its sandbox, may each take to go; not cancelled before."""
    retries: int = Field(default=1, ge=0, le=10)
    """Further attempts after a mask that is worth one. Each starts over, with the budget that the lost one had."""
    patch_mode: PatchMode = "worktree"
    """``worktree``: what the files are; ``committed``: what the agent has committed."""
    patch_source: PatchSource = "agent_or_tree"
    """``tree``: the patch is taken from the sandbox even where the agent submits one of its own."""
    scrub_history: bool = True
    """Remove from the repository of an image whatever lies beyond the base commit, and prove it, before an agent sees
    it. An image that cannot be scrubbed is a mask."""
    limits: Limits = Limits()
    """Of the agent's sandbox."""
    max_steps: int = Field(default=100_000, gt=0)
    """Steps of an attempt in the journal; what a harness, or who speaks in its name, tells beyond is dropped."""
    max_transcript_bytes: int = Field(default=1 << 30, gt=0)
    """Of each transcript; what comes beyond is counted and dropped."""


class RunLimits(Record):
    """How much of a run happens at once; None = no limit."""

    episodes: int | None = Field(default=None, gt=0)
    """Rollouts under way, from seed to return. None = one a processor, at most 8."""
    boxes: int | None = Field(default=None, gt=0)
    """Sandboxes of agents and of this process's own verifier alive. A rollout holds one at a time."""
    creates: int | None = Field(default=16, gt=0)
    """Sandboxes being made."""
    model_calls: int | None = Field(default=None, gt=0)
    """Calls of the model under way; for the gateway, which counts them."""
