"""The adapter of mini-swe-agent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Literal

import anyio.to_thread
from pydantic import Field

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, ModelAccess, Tier
from swe_sdk.agents.harnesses import HARNESSES, need_harness
from swe_sdk.agents.harnesses.agent import HarnessAgent
from swe_sdk.agents.harnesses.python_packages import PythonPackages
from swe_sdk.agents.mini_swe_agent.conversation import Conversation, Opening
from swe_sdk.agents.mini_swe_agent.process import WorkerDied, worker_process
from swe_sdk.errors import HarnessUnavailable

_HARNESS = "mini-swe-agent"
_WORKER = Path(__file__).parent / "worker.py"
_SYSTEM = {"system": "Linux", "release": "", "version": "", "machine": os.uname().machine}
"""What its prompts may name of the box."""


PromptName = Literal["system_template", "instance_template", "observation_template", "format_error_template"]


class MiniSweAgent(HarnessAgent):
    """mini-swe-agent's own loop, prompts and state, one process of its own for each episode; commands run in the box.

    A parked episode goes on exactly where it was: between a model call and a command, or between two commands.
    """

    name: ClassVar[str] = _HARNESS
    tier: ClassVar[Tier] = "exact"

    step_limit: int = Field(default=250, ge=0)
    """Model calls; 0 = no limit."""
    cost_limit: float = Field(default=3.0, ge=0)
    """US dollars, where the endpoint states costs or prices are given; 0 = no limit."""
    max_consecutive_format_errors: int = Field(default=3, ge=0)
    """Replies without a usable tool call that end it; 0 = no limit."""
    command_timeout_s: float | None = Field(default=None, gt=0)
    """For one command; by default what the run says."""
    prompts: dict[PromptName, str] = Field(default_factory=dict)
    """Templates (Jinja) in the place of those of its SWE-bench settings."""
    model_parameters: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request, such as ``temperature``."""
    model_timeout_s: float = Field(default=600.0, gt=0)
    """For one model call."""
    model_tries: int = Field(default=8, ge=1)
    """For one model call, where it fails in a way that may pass: two minutes in all."""
    price_in: float = Field(default=0.0, ge=0)
    """US dollars for a million tokens that the model reads."""
    price_out: float = Field(default=0.0, ge=0)
    """The same for those that it writes."""

    @property
    def needs(self) -> AgentNeeds:
        """Nothing in the box: it runs outside."""
        return AgentNeeds(egress="model", model_from_box=False)

    async def run(self, episode: Episode) -> AgentEnd:
        """One episode, or the rest of one. ``HarnessUnavailable`` without a model, or where it is not installed."""
        if episode.model is None:
            raise HarnessUnavailable(_HARNESS, "it needs a model", remedy="give the run a model")
        directory = await anyio.to_thread.run_sync(need_harness, _HARNESS)
        try:
            async with worker_process(
                _command(directory), _environ(directory, episode.model), episode.transcript("mini-swe-agent.stderr")
            ) as worker:
                return await Conversation(episode, worker, self._first(episode, episode.model)).to_its_end()
        except WorkerDied as died:
            message = f"mini-swe-agent's own process ended with code {died.exit_code}: {died.last_words}"
            return AgentEnd(reason="error", message=message, exit_code=died.exit_code, info={"failure": "harness"})

    def _first(self, episode: Episode, model: ModelAccess) -> Opening:
        settings = self.model_dump(include={"prompts", "step_limit", "cost_limit", "max_consecutive_format_errors"})
        client = {
            "base_url": model.base_url,
            "name": model.name,
            "timeout_s": self.model_timeout_s,
            "tries": self.model_tries,
            "parameters": self.model_parameters,
            "price_in": self.price_in,
            "price_out": self.price_out,
        }
        told = {**settings, "model": client, "workdir": episode.task.workdir, "variables": _SYSTEM}
        return Opening(told, self.command_timeout_s or episode.command_timeout_s, self.version)


def _command(directory: Path) -> list[str]:
    harness = HARNESSES[_HARNESS]
    assert isinstance(harness, PythonPackages)
    return harness.run(directory, _WORKER)


def _environ(directory: Path, model: ModelAccess) -> dict[str, str]:
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": str(directory / "home"),
        "SWE_SDK_MODEL_KEY": model.api_key.get_secret_value(),
    }
