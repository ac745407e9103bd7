"""The settings of a run, once every layer of them is merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from swe_sdk.config.durations import Seconds
from swe_sdk.model.record import Record


class ModelConfig(Record):
    """The model that an agent talks to: any endpoint that speaks the OpenAI chat completions.

    The key itself is never part of a configuration: ``api_key_env`` names the variable that holds it.
    """

    base_url: str
    name: str
    api_key_env: str = "OPENAI_API_KEY"
    gateway_host: str = "127.0.0.1"
    """Where this process listens for agents; boxes elsewhere need an address that they reach."""
    gateway_port: int = Field(default=0, ge=0, lt=1 << 16)
    """0 = any free one."""
    service_url: str | None = None
    """That address, as boxes elsewhere see it: for providers whose boxes have no way of their own to the model."""


class RunConfig(Record):
    """Every setting of a run; this is what a run directory keeps.

    Made by :func:`swe_sdk.config.resolve.resolve_config` out of a preset, a file and the arguments of a call.
    """

    preset: str
    """The preset that the other values started from."""

    agent: str = Field(min_length=1)
    """Name of the agent, as :mod:`swe_sdk.agents` knows it."""
    agent_version: str | None = None
    """The version of its harness that results are comparable for; None = it has none of its own."""
    agent_settings: dict[str, Any] = Field(default_factory=dict)
    """Further settings, which the agent itself checks."""
    model: ModelConfig | None = None

    samples: int = Field(default=1, ge=1)
    """Rollouts of each task."""
    retries: int = Field(default=1, ge=0, le=10)
    """Further attempts at a rollout whose mask is worth one; each keeps the evidence of those before."""

    budget_s: Seconds | None = None
    """For all stages of a rollout together; None = each has only its own limit."""
    deadline_s: Seconds | None = None
    """For the whole run: what is not over by then is stopped, and can be resumed; None = no limit."""
    seed_timeout_s: Seconds
    """For making the agent's sandbox."""
    agent_timeout_s: Seconds
    """For the agent's own work; what is there when it ends is graded."""
    command_exec_timeout_s: Seconds
    """For one command that an agent runs in its sandbox."""
    tests_timeout_s: Seconds
    """For the tests alone; running out of it is the submission's doing."""
    close_timeout_s: Seconds
    """For taking the patch."""
    verify_timeout_s: Seconds
    """For a whole verification, its own attempts included."""
    build_timeout_s: Seconds
    """For an environment that must be built first."""
    teardown_timeout_s: Seconds
    """How long ending an agent and its sandbox may take; it cannot be cancelled before."""

    provider: str
    """Name of the sandbox provider."""
    base_image: str | None = None
    """The image on which sources are built, for container providers; None = ``$SWE_SDK_BASE_IMAGE``."""
    memory_limit_mib: int | None = Field(default=None, gt=0)
    """Of each sandbox; None = the provider's default."""
    apptainer_memory_limit_mib: int = Field(gt=0)
    """The same for sandboxes of apptainer, which has no default of its own."""
    executor: str = "local"
    """Where rollouts run: ``local`` = in this process, ``ray`` or ``slurm``."""
    limit: int | None = Field(default=None, ge=1)
    """Rollouts at a time, on each node; None = one a processor, at most 8."""
    max_boxes: int | None = Field(default=None, ge=1)
    """Sandboxes alive at a time; None = no limit but that of rollouts, which hold one each."""
    max_creates: int = Field(ge=1)
    """Sandboxes being made at a time."""
    max_model_calls: int | None = Field(default=None, ge=1)
    """Model calls under way at a time, over all rollouts."""

    max_calls_per_attempt: int | None = Field(default=None, ge=1)
    """Model calls of an attempt, as the gateway counts them; further ones are refused, and the agent is at a limit."""
    max_tokens_per_attempt: int | None = Field(default=None, ge=1)
    """The same for tokens, of prompts and completions together."""

    checkpoint_every_s: Seconds | None = None
    """How often all rollouts that are under way are saved; None = never."""
    keep_last: int = Field(default=2, ge=1)
    """Of the checkpoints, keep the newest ones, ..."""
    keep_every: int | None = Field(default=None, ge=1)
    """... every n-th, ..."""
    keep_best: int = Field(default=0, ge=0)
    """... and those at which the mean reward was highest. None is kept once the run is finished."""
    snapshot_share: Path | None = None
    """A folder that all nodes see, to which snapshots of checkpoints are copied; None = they stay on their nodes."""
    checkpoint_wait_s: Seconds = 60.0
    """How long a rollout waits for a place on the node that has its snapshot, before it goes elsewhere."""

    patch_mode: Literal["worktree", "committed"] = "worktree"
    """``worktree``: what the files are; ``committed``: what the agent has committed."""
    policy: str
    """What failures mean: "default" or "nemo_gym"."""
    verifier: str | None = None
    """URL of a verifier that grades; None = this process does."""


SETTINGS = tuple(RunConfig.model_fields)
"""The keys of a configuration."""
