"""Filters: what may stand behind a ``|``."""

from __future__ import annotations

import html
from typing import Any, Callable


def escape(value: Any) -> str:
    """Make ``value`` harmless in HTML text and in attributes."""
    return html.escape(str(value), quote=True)


FILTERS: dict[str, Callable[[Any], Any]] = {
    "escape": escape,
    "join": lambda values: ", ".join(str(value) for value in values),
    "lower": lambda value: str(value).lower(),
    "trim": lambda value: str(value).strip(),
    "upper": lambda value: str(value).upper(),
}
