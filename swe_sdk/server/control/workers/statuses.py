"""What the statuses of all workers come to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_WEAKEST = ("restart_only", "stateless", "exported")
"""Modes: a server can be saved as far as the worker that can least."""


def joint_extras(extras: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts are added up, the weakest mode is told, what is true is true of all; else the first one speaks."""
    names = dict.fromkeys(name for one in extras for name in one)
    return {name: _joint(name, [one[name] for one in extras if name in one]) for name in names}


def _joint(name: str, values: Sequence[Any]) -> Any:
    if name == "mode":
        return min(values, key=_WEAKEST.index)
    if all(isinstance(one, bool) for one in values):
        return all(values)
    return sum(values) if all(isinstance(one, int) for one in values) else values[0]
