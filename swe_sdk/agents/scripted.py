"""The agent that follows a script: deterministic, for tests and for checks of a whole set-up."""

from __future__ import annotations

import time
from typing import Annotated, Any, ClassVar, Literal

import anyio
from pydantic import Field

from swe_sdk.agents.contract import AgentEnd, AgentNeeds, Egress, EndReason, Episode, Step, Tier
from swe_sdk.errors import SandboxLost
from swe_sdk.model.record import Record

_SHOWN_BYTES = 2000


class Exec(Record):
    """Run a command in the repository; with ``check``, the agent fails where the command does."""

    do: Literal["exec"] = "exec"
    command: str | tuple[str, ...]
    timeout_s: float | None = Field(default=None, gt=0)
    """None = that of the run's settings."""
    check: bool = False


class Write(Record):
    """Write a file; relative paths start at the repository."""

    do: Literal["write"] = "write"
    path: str
    content: str = ""
    data: bytes | None = None
    """Bytes, for what is no text; instead of ``content``."""


class Wait(Record):
    """Let time pass."""

    do: Literal["wait"] = "wait"
    seconds: float = Field(ge=0)


class Fail(Record):
    """End here, with a reason of the contract."""

    do: Literal["fail"] = "fail"
    reason: EndReason = "error"
    message: str = "the script says so"


Action = Annotated[Exec | Write | Wait | Fail, Field(discriminator="do")]


class ScriptedAgent(Record):
    """Does ``actions`` one after the other. A boundary lies after each of them, and anywhere within a wait."""

    name: ClassVar[str] = "scripted"
    version: ClassVar[str] = "1"
    tier: ClassVar[Tier] = "exact"
    actions: tuple[Action, ...] = ()
    egress: Egress = "none"

    @property
    def needs(self) -> AgentNeeds:
        """A model only where it is asked for; the script itself uses none."""
        return AgentNeeds(egress=self.egress)

    async def run(self, episode: Episode) -> AgentEnd:
        """Follow the script, from where the episode stands."""
        state = episode.saved or {}
        for number, action in list(enumerate(self.actions))[state.get("done", 0) :]:
            begin = time.monotonic()
            end, summary = await self._act(episode, number, action, state.get("waited_s", 0.0))
            state = {}
            seconds = time.monotonic() - begin
            episode.record(Step(n=number + 1, kind="action", summary=summary, seconds=seconds, data={"do": action.do}))
            if end is not None:
                return end
            await episode.boundary({"done": number + 1})
        return AgentEnd(message=f"followed {len(self.actions)} actions")

    async def _act(self, episode: Episode, number: int, action: Action, waited_s: float) -> tuple[AgentEnd | None, str]:
        """Do one action; how the agent ends by it, if it does, and a line for a reader."""
        match action:
            case Exec():
                return await _run(episode, action)
            case Write():
                data = action.content.encode() if action.data is None else action.data
                await episode.box.write(action.path, data)
                return None, f"write {action.path}"
            case Wait():
                await _wait(episode, number, action.seconds, waited_s)
                return None, f"wait {action.seconds} s"
            case Fail():
                return AgentEnd(reason=action.reason, message=action.message), f"end: {action.reason}"


async def _run(episode: Episode, action: Exec) -> tuple[AgentEnd | None, str]:
    transcript = episode.transcript("output.log")
    result = await episode.box.exec(
        action.command,
        timeout_s=action.timeout_s or episode.command_timeout_s,
        merge_stderr=True,
        on_output=lambda _stream, data: transcript.write(data),
    )
    shown = action.command if isinstance(action.command, str) else " ".join(action.command)
    if result.status == "lost":
        raise SandboxLost("the sandbox died under a command of the script")
    if action.check and not result.ok:
        message = f"{shown[:200]}: it {result.summary}: {result.stdout[-_SHOWN_BYTES:]}"
        return AgentEnd(reason="error", message=message, exit_code=result.exit_code), shown[:200]
    return None, f"{shown[:200]}: it {result.summary}"


async def _wait(episode: Episode, number: int, seconds: float, waited_s: float) -> None:
    """Sleep, and come to a boundary as soon as somebody asks for one."""
    while waited_s < seconds:
        begin = time.monotonic()
        with anyio.move_on_after(seconds - waited_s):
            await episode.wait_park_requested()
        waited_s += time.monotonic() - begin
        if waited_s < seconds:
            state: dict[str, Any] = {"done": number, "waited_s": waited_s}
            await episode.boundary(state)
