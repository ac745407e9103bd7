"""The adapter of OpenCode."""

from __future__ import annotations

from typing import Any, ClassVar

from anyio import to_thread
from pydantic import Field

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Episode, Tier
from swe_sdk.agents.harnesses import HARNESSES, ensure_harness, need_harness
from swe_sdk.agents.in_box.program import AGENTS, STATE, need_model
from swe_sdk.agents.in_box.prompt import ISSUE_PROMPT, issue_prompt
from swe_sdk.agents.in_box.watched import run_watched
from swe_sdk.agents.opencode.config import configuration, environment
from swe_sdk.agents.opencode.events import EventReader
from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.record import Record
from swe_sdk.sandbox.contract import Mount

_HARNESS = "opencode"
_AT = f"{AGENTS}/{_HARNESS}"
_STATE = f"{STATE}/opencode"
_COMMAND = (
    f"{_AT}/bin/opencode",
    "run",
    "--format",
    "json",
    "--pure",
    "--print-logs",
    "--log-level",
    "ERROR",
)  # with a title of ours it makes no further model call for one


class OpenCode(Record):
    """OpenCode's ``run`` command, as one program in the box; the tree afterwards is the patch.

    A parked episode is ended between two model calls, and goes on with the words of ``go_on`` as one further message.
    """

    name: ClassVar[str] = _HARNESS
    tier: ClassVar[Tier] = "paused"

    max_steps: int = Field(default=250, ge=1)
    """Model calls, after which it is ended."""
    prompt: str = ISSUE_PROMPT
    """What it is told, with ``{problem_statement}``, ``{workdir}`` and ``{hints}``."""
    go_on: str = "Continue."
    """What it is told after a park."""
    context_tokens: int = Field(default=128_000, ge=1)
    """Of the model: before they are full, it sums up what it has."""
    output_tokens: int = Field(default=8192, ge=1)
    """What the model may write in one reply."""
    model_tries: int = Field(default=8, ge=1)
    """For one model call: two minutes in all. By itself it would try for ever."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Further settings of its own, laid over ours key by key."""

    @property
    def version(self) -> str:
        """Of the npm package."""
        return HARNESSES[_HARNESS].version

    @property
    def needs(self) -> AgentNeeds:
        """Its program. ``HarnessUnavailable`` before :meth:`prepare`."""
        return AgentNeeds(egress="model", mounts=(Mount(source=str(need_harness(_HARNESS)), target=_AT),))

    async def prepare(self) -> None:
        """Fetch it, if it is not there yet."""
        await to_thread.run_sync(ensure_harness, _HARNESS, abandon_on_cancel=True)

    async def run(self, episode: Episode) -> AgentEnd:
        """One episode, or the rest of one: a process for each stretch between two parks."""
        saved = episode.saved or {"session": None, "n_steps": 0, "calls": 0}
        while True:
            reader = EventReader(
                episode,
                first_step=saved["n_steps"],
                calls=saved["calls"],
                max_calls=self.max_steps,
                max_failures=self.model_tries,
            )
            result = await self._stretch(episode, reader, saved["session"])
            if result is not None or reader.stop != "parked":
                return reader.end(result)
            saved = {"session": reader.session, "n_steps": reader.n_steps, "calls": reader.calls}
            await episode.boundary(saved)

    async def _stretch(self, episode: Episode, reader: EventReader, session: str | None) -> ExecResult | None:
        """Its process, to its end; None where we ended it."""
        model, url = need_model(episode, _HARNESS)
        config = configuration(
            model.name, url, context_tokens=self.context_tokens, output_tokens=self.output_tokens, more=self.config
        )
        return await run_watched(
            episode,
            _HARNESS,
            [*_COMMAND, *(["--session", session] if session else ["--title", episode.rollout_id])],
            reader,
            env=environment(_STATE, config, model.api_key.get_secret_value()),
            stdin=(self.go_on if session else issue_prompt(self.prompt, episode.task)).encode(),
            on_complaint=reader.complain,
        )
