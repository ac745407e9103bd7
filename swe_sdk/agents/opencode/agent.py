"""The adapter of OpenCode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from swe_sdk.agents.contract import AgentEnd, Episode, Tier
from swe_sdk.agents.in_box.mounted import MountedAgent
from swe_sdk.agents.in_box.program import AGENTS, STATE, need_model
from swe_sdk.agents.in_box.prompt import ISSUE_PROMPT, issue_prompt
from swe_sdk.agents.in_box.watched import run_watched
from swe_sdk.agents.opencode.config import configuration, environment
from swe_sdk.agents.opencode.events import NEW, EventReader

_HARNESS = "opencode"
_AT = f"{AGENTS}/{_HARNESS}"
_STATE = f"{STATE}/opencode"
_DRIVER = f"{AGENTS}/opencode_driver.mjs"
_COMMAND = (f"{_AT}/bin/opencode", "run", _DRIVER)
"""Its program has a runtime within, and is that where a variable says so."""


class OpenCode(MountedAgent):
    """OpenCode's server with one session, as one program in the box; the tree afterwards is the patch.

    A parked episode stands where it waits for the model. Elsewhere it goes on from there, with its history as it was.
    """

    name: ClassVar[str] = _HARNESS
    tier: ClassVar[Tier] = "exact"
    driver: ClassVar[Path | None] = Path(__file__).parent / "driver.mjs"

    max_steps: int = Field(default=250, ge=1)
    """Model calls, after which it is ended."""
    prompt: str = ISSUE_PROMPT
    """What it is told, with ``{problem_statement}``, ``{workdir}`` and ``{hints}``."""
    context_tokens: int = Field(default=128_000, ge=1)
    """Of the model: before they are full, it sums up what it has."""
    output_tokens: int = Field(default=8192, ge=1)
    """What the model may write in one reply."""
    model_tries: int = Field(default=8, ge=1)
    """For one model call: two minutes in all. By itself it would try for ever."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Further settings of its own, laid over ours key by key."""

    async def run(self, episode: Episode) -> AgentEnd:
        """One episode, or the rest of one."""
        model, url = need_model(episode, _HARNESS)
        saved = {**NEW, **(episode.saved or {})}
        reader = EventReader(episode, saved=saved, max_calls=self.max_steps, max_failures=self.model_tries)
        config = configuration(
            model.name, url, context_tokens=self.context_tokens, output_tokens=self.output_tokens, more=self.config
        )
        request = {
            "workdir": episode.task.workdir,
            "session": saved["session"],
            "seen": saved["seen"],
            "title": episode.rollout_id,  # with one of ours it makes no model call for it
            "prompt": issue_prompt(self.prompt, episode.task),
        }
        result = await run_watched(
            episode,
            _HARNESS,
            _COMMAND,
            reader,
            env={**environment(_STATE, config, model.api_key.get_secret_value()), "BUN_BE_BUN": "1"},
            stdin=json.dumps(request).encode(),
            cwd="/",  # the runtime would obey files of the repository
            on_complaint=reader.complain,
        )
        return reader.end(result)
