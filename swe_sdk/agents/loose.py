"""Reading JSON that somebody else wrote, and that may hold anything at any place."""

from __future__ import annotations

import math
from typing import Any

_TEXT_CHARS = 200


def table(value: Any, *path: str) -> dict[str, Any]:
    """The object at ``path`` below ``value``; an empty one where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def count(value: Any) -> int:
    """A number of things; 0 where it is none."""
    return value if isinstance(value, int) and 0 <= value < 1 << 53 else 0


def number(value: Any) -> float | None:
    """A finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1 << 53 and math.isfinite(value) else None


def text(value: Any, limit: int = 2000) -> str:
    """A text of so many characters at most; empty where it is none."""
    return value[:limit] if isinstance(value, str) else ""


def small(**fields: Any) -> dict[str, Any]:
    """Those of the fields that are a number, a truth value or a text, cut short: what a step may carry."""
    kept = {name: value[:_TEXT_CHARS] if isinstance(value, str) else value for name, value in fields.items()}
    return {name: value for name, value in kept.items() if isinstance(value, str | bool) or number(value) is not None}
