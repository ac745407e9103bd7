"""The prompt in what a model was asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swe_sdk.server.models import ResponsesCreateParams


def prompt_in(asked: ResponsesCreateParams) -> str:
    """The text of the user's messages in its ``input``; empty where there is none."""
    given = (asked.model_extra or {}).get("input")
    if isinstance(given, str):
        return given
    items = given if isinstance(given, list) else []
    return "\n\n".join(text for item in items if isinstance(item, dict) for text in _texts(item))


def _texts(item: dict[str, Any]) -> Iterator[str]:
    if item.get("role", "user") != "user":
        return
    content = item.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
