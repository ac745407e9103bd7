"""The adapter of Codex."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from swe_sdk.agents.codex.config import KEY_VARIABLE, configuration
from swe_sdk.agents.codex.events import NEW, EventReader
from swe_sdk.agents.contract import AgentEnd, Episode, Tier
from swe_sdk.agents.in_box.mounted import MountedAgent
from swe_sdk.agents.in_box.program import AGENTS, STATE, need_model
from swe_sdk.agents.in_box.prompt import ISSUE_PROMPT, issue_prompt
from swe_sdk.agents.in_box.watched import run_watched
from swe_sdk.model.exec_result import ExecResult

_HARNESS = "codex"
_AT = f"{AGENTS}/{_HARNESS}"
_STATE = f"{STATE}/codex"
_CONFIGURE = f"mkdir -p {_STATE} && cat > {_STATE}/config.toml"
"""A command, since one that fails (an agent may have spoilt its folder) is no infrastructure failure."""
_COMMAND = (f"{_AT}/bin/codex", "exec", "--json", "--skip-git-repo-check")


class Codex(MountedAgent):
    """Codex' ``exec`` command, as one program in the box; the tree afterwards is the patch.

    It speaks the responses interface: the endpoint must have ``/v1/responses``. A parked episode stands where it waits
    for the model. Elsewhere it goes on from there with the words of ``go_on`` as one further message.
    """

    name: ClassVar[str] = _HARNESS
    tier: ClassVar[Tier] = "paused"

    max_actions: int = Field(default=500, ge=1)
    """Commands and changes of files, after which it is ended."""
    prompt: str = ISSUE_PROMPT
    """What it is told, with ``{problem_statement}``, ``{workdir}`` and ``{hints}``."""
    go_on: str = "Continue."
    """What it is told where it goes on in another process."""
    context_tokens: int = Field(default=128_000, ge=1)
    """Of the model: before they are full, it sums up what it has."""
    model_timeout_s: float = Field(default=600.0, gt=0)
    """Without a word of the model."""
    model_tries: int = Field(default=8, ge=1)
    """For one model call."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Further settings of its own, laid over ours key by key."""

    async def run(self, episode: Episode) -> AgentEnd:
        """One episode, or the rest of one."""
        saved = {**NEW, **(episode.saved or {})}
        reader = EventReader(episode, saved=saved, max_actions=self.max_actions)
        return reader.end(await self._process(episode, reader, saved["thread"]))

    async def _process(self, episode: Episode, reader: EventReader, thread: str | None) -> ExecResult | None:
        """Its process, to its end; None where we ended it."""
        model, url = need_model(episode, _HARNESS)
        config = configuration(
            model.name,
            url,
            context_tokens=self.context_tokens,
            tries=self.model_tries,
            timeout_s=self.model_timeout_s,
            more=self.config,
        )
        await episode.box.exec(_CONFIGURE, cwd="/", stdin=config.encode())
        return await run_watched(
            episode,
            _HARNESS,
            [*_COMMAND, *(["resume", thread] if thread else []), "-"],
            reader,
            env={"CODEX_HOME": _STATE, KEY_VARIABLE: model.api_key.get_secret_value()},
            stdin=(self.go_on if thread else issue_prompt(self.prompt, episode.task)).encode(),
        )
