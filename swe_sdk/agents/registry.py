"""Agents by name: ours, and those of other packages by the entry point group ``swe_sdk.agents``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from swe_sdk.agents.contract import Agent
from swe_sdk.errors import InputError, UnknownAgent

GROUP = "swe_sdk.agents"
BUILTIN = {
    "codex": ("codex", "Codex"),
    "command": ("command", "CommandAgent"),
    "gold": ("gold", "GoldAgent"),
    "mini-swe-agent": ("mini_swe_agent", "MiniSweAgent"),
    "noop": ("noop", "NoopAgent"),
    "opencode": ("opencode", "OpenCode"),
    "openhands": ("openhands", "OpenHands"),
    "scripted": ("scripted", "ScriptedAgent"),
}
"""Name to module below ``swe_sdk.agents`` and class; imported when it is asked for."""


def agent_names() -> tuple[str, ...]:
    """The names that :func:`make_agent` takes."""
    return tuple(sorted({*BUILTIN, *_others()}))


def agent_class(name: str) -> Callable[..., Agent]:
    """What makes agents of that name; ``UnknownAgent`` where there is none."""
    if name in BUILTIN:
        module, attribute = BUILTIN[name]
        made: Callable[..., Agent] = getattr(import_module(f"swe_sdk.agents.{module}"), attribute)
        return made
    if name in _others():
        loaded: Callable[..., Agent] = _others()[name].load()
        return loaded
    raise UnknownAgent(name, agent_names())


def make_agent(agent: Agent | str, **settings: Any) -> Agent:
    """An agent by name with its settings, or itself. ``UnknownAgent``, or ``InputError`` for settings it refuses."""
    if not isinstance(agent, str):
        if settings:
            raise InputError("settings are for agents by name", remedy="give them to the agent itself")
        return agent
    try:
        return agent_class(agent)(**settings)
    except (TypeError, ValidationError) as error:
        raise InputError(f"the agent {agent!r} refuses its settings: {error}") from error


@cache
def _others() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
