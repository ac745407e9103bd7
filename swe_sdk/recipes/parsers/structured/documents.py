"""Finding a runner's JSON or XML in text that may hold other things as well. Nothing here raises on any text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_DECODER = json.JSONDecoder()
_MAX_TRIES = 200
"""Places at which a text is tried: each try may read to its end."""


def json_objects(text: str, *, having: str) -> Iterator[Mapping[str, Any]]:
    """The JSON objects with a key ``having``: the text itself, or objects that begin at the start of a line.

    What a runner logs may stand before and after its report, never within it.
    """
    whole = _loaded(text.strip())
    if whole is not None:
        if having in whole:
            yield whole
        return
    at, tries = 0, 0
    while at >= 0 and tries < _MAX_TRIES:
        start = text.find("{", at)
        if start < 0:
            return
        found = _decoded(text, start) if start == 0 or text[start - 1] == "\n" else None
        if found is not None and having in found[0]:
            yield found[0]
        tries += found is None and (start == 0 or text[start - 1] == "\n")
        at = found[1] if found is not None else start + 1


def as_list(value: Any) -> list[Any]:
    """A list, or an empty one for whatever is no list."""
    return value if isinstance(value, list) else []


def as_objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list; whatever else is in it is left out."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def as_text(value: Any) -> str:
    """A text, or an empty one for whatever is no text."""
    return value if isinstance(value, str) else ""


def _loaded(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _decoded(text: str, start: int) -> tuple[Mapping[str, Any], int] | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None
