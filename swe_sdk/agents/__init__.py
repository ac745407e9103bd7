"""Agents: adapters around harnesses, imported when they are first used.

``swe_sdk.agents.MiniSweAgent(...)`` and its like; the contract is :mod:`swe_sdk.agents.contract`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from swe_sdk.agents.registry import BUILTIN

_HOMES = {attribute: module for module, attribute in BUILTIN.values()}

__all__ = [
    "Codex",
    "CommandAgent",
    "GoldAgent",
    "MiniSweAgent",
    "NoopAgent",
    "OpenCode",
    "OpenHands",
    "ScriptedAgent",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'swe_sdk.agents' has no attribute {name!r}")
    value = getattr(import_module(f"swe_sdk.agents.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
