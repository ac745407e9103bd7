"""What a scripted model says: turns, tool calls, faults. Pure data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from swe_sdk.model.record import Record
from swe_sdk.testing.scripted.requests import ModelRequest


class Usage(Record):
    """The tokens that a reply claims to have cost."""

    prompt_tokens: int = Field(default=10, ge=0)
    completion_tokens: int = Field(default=5, ge=0)


class ToolUse(Record):
    """One tool call of a turn."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    """A string is sent as it is: malformed JSON, for instance."""

    @property
    def arguments_json(self) -> str:
        """The arguments as models give them: JSON in a string."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


class Fault(Record):
    """A request that fails: an error reply, or a connection that breaks."""

    status: int = Field(default=500, ge=400, le=599)
    type: str | None = None
    """Of the error; by default what real endpoints say with that status. Harnesses decide on it whether to retry."""
    code: str | None = None
    message: str = "scripted failure"
    headers: dict[str, str] = Field(default_factory=dict)
    """Such as ``retry-after``."""
    delay_s: float = Field(default=0.0, ge=0)
    cut: Literal["no", "before_reply", "within_reply"] = "no"
    """Break the connection instead: before the status line, or in the middle of the body of the turn that follows."""


class Turn(Record):
    """One reply of the model."""

    text: str | None = None
    tools: tuple[ToolUse, ...] = ()
    delay_s: float = Field(default=0.0, ge=0)
    """Before the first byte."""
    chunk_delay_s: float = Field(default=0.0, ge=0)
    """Before each piece of a streamed reply."""
    gate: str | None = None
    """The reply waits until :meth:`ScriptedModel.open_gate` is called with this name."""
    usage: Usage = Usage()
    finish_reason: str | None = None
    """By default "tool_calls" where there are any, else "stop"."""
    padding_bytes: int = Field(default=0, ge=0)
    """So many letters are added to the text, made as they are sent: for bodies that are large."""
    before: tuple[Fault, ...] = ()
    """What the first requests for this turn get instead, one each: the request that comes after them gets the turn."""


Entry = Turn | Fault
"""A fault in the place of a turn is what every request at that point of the history gets."""
Player = Callable[[ModelRequest], Entry]
"""A script as a function of the request."""
Script = Sequence[Entry] | Player


@dataclass(frozen=True)
class Role:
    """One of several scripts of a model: it is played for the requests that ``when`` accepts."""

    when: Callable[[ModelRequest], bool]
    script: Script
    name: str = ""


def say(text: str, **settings: Any) -> Turn:
    """A turn of text; ``settings`` are fields of :class:`Turn`."""
    return Turn(text=text, **settings)


def use(name: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> ToolUse:
    """A tool call: ``use("bash", command="ls")``."""
    return ToolUse(name=name, arguments={**(arguments or {}), **more})


def act(*tools: ToolUse, text: str | None = None, **settings: Any) -> Turn:
    """A turn of tool calls, in parallel where there are several: ``act(use("bash", command="ls"))``."""
    return Turn(text=text, tools=tools, **settings)


def fail(status: int = 500, **settings: Any) -> Fault:
    """A fault; ``settings`` are fields of :class:`Fault`."""
    return Fault(status=status, **settings)


def entry_at(script: Script, request: ModelRequest) -> Entry:
    """What ``script`` answers; beyond its end a fault that no harness retries and that says so."""
    if callable(script):
        return script(request)
    if request.turn < len(script):
        return script[request.turn]
    return Fault(
        status=400, code="script_ended", message=f"the script has {len(script)} turns, and this is {request.turn + 1}"
    )
