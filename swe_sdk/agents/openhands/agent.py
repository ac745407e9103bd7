"""The adapter of OpenHands."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, ClassVar

import anyio
from pydantic import Field

from swe_sdk.agents.contract import AgentEnd, Episode, Tier
from swe_sdk.agents.harnesses import HARNESSES
from swe_sdk.agents.harnesses.python_packages import PythonPackages
from swe_sdk.agents.in_box.mounted import MountedAgent
from swe_sdk.agents.in_box.program import AGENTS, STATE, need_model, run_program
from swe_sdk.agents.in_box.prompt import ISSUE_PROMPT, issue_prompt
from swe_sdk.agents.in_box.watched import park_in_place
from swe_sdk.agents.openhands.events import NEW, EventReader

_HARNESS = "openhands"
_AT = f"{AGENTS}/{_HARNESS}"
_RUNNER = f"{AGENTS}/openhands_runner.py"
_STATE = f"{STATE}/openhands"
_CONVERSATION = "5e1f0a52-93f8-4a51-9d0e-6f1f1c1b7a55"
"""Each box has one conversation, so that its id needs no keeping."""
_ENV = {
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LOG_LEVEL": "WARNING",
    "OTEL_SDK_DISABLED": "true",
    "DO_NOT_TRACK": "1",
}


class OpenHands(MountedAgent):
    """OpenHands' SDK with its terminal and file editor, as one program in the box; the tree afterwards is the patch.

    A parked episode stands between two steps (a model call and its tools), where it waits for the model. Elsewhere it
    goes on with the next one; only what its shell knew is lost.
    """

    name: ClassVar[str] = _HARNESS
    tier: ClassVar[Tier] = "step"
    driver: ClassVar[Path | None] = Path(__file__).parent / "runner.py"

    max_iterations: int = Field(default=250, ge=1)
    """Model calls in an episode."""
    prompt: str = ISSUE_PROMPT
    """What it is told, with ``{problem_statement}``, ``{workdir}`` and ``{hints}``."""
    llm: dict[str, Any] = Field(default_factory=dict)
    """Further settings of its LLM class, such as ``temperature`` or ``max_output_tokens``."""
    model_timeout_s: int = Field(default=600, ge=1)
    """For one model call."""
    model_tries: int = Field(default=5, ge=1)
    """For one model call, where it fails in a way that may pass; with pauses of 8 s and more between them."""

    async def run(self, episode: Episode) -> AgentEnd:
        """One episode, or the rest of one."""
        model, url = need_model(episode, _HARNESS)
        saved = {**NEW, **(episode.saved or {})}
        reader = EventReader(episode, saved)
        request = {
            "workdir": episode.task.workdir,
            "state": _STATE,
            "conversation_id": str(uuid.UUID(_CONVERSATION)),
            "prompt": issue_prompt(self.prompt, episode.task) if episode.saved is None else None,
            "seen": saved["seen"],
            "model": model.name,
            "base_url": url,
            "max_iterations": max(1, self.max_iterations - saved["n_calls"]),
            "llm": {"num_retries": self.model_tries - 1, "timeout": self.model_timeout_s, **self.llm},
        }
        harness = HARNESSES[_HARNESS]
        assert isinstance(harness, PythonPackages)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(park_in_place, episode, reader.state)
            result = await run_program(
                episode,
                _HARNESS,
                harness.run(_AT, _RUNNER),
                env={**_ENV, "SWE_SDK_MODEL_KEY": model.api_key.get_secret_value()},
                stdin=json.dumps(request).encode(),
                on_object=reader.take,
            )
            tasks.cancel_scope.cancel()
        return reader.end(result)
