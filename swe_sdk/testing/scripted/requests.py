"""What a harness asks of a model, whichever of the three interfaces it speaks. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from swe_sdk.model.record import Record

Api = Literal["chat", "responses", "messages"]
_MODEL_ITEMS = {"function_call", "reasoning", "custom_tool_call", "local_shell_call"}
"""Items of the responses interface that the model has made, besides messages of the role assistant."""


class ModelRequest(Record):
    """One call of the model."""

    api: Api
    model: str
    stream: bool
    items: tuple[dict[str, Any], ...]
    """The history: messages, or items of the responses interface."""
    tools: tuple[str, ...]
    """Names of the tools that were offered."""
    body: dict[str, Any]
    """The request as it came."""
    api_key: str | None
    """From ``Authorization: Bearer`` or ``x-api-key``."""

    @property
    def turn(self) -> int:
        """How many turns of the model the history holds: which one is asked for now, counted from 0."""
        return count_turns(self.items)

    @property
    def digest(self) -> str:
        """Equal for requests with an equal history."""
        return hashlib.sha256(json.dumps([self.model, self.items], sort_keys=True).encode()).hexdigest()

    @property
    def texts(self) -> tuple[str, ...]:
        """All text of the history, in order: for assertions and for matching."""
        return tuple(_texts(list(self.items)))

    def says(self, words: str) -> bool:
        """Whether ``words`` stand in a text of the history."""
        return any(words in text for text in self.texts)


def count_turns(items: Sequence[Mapping[str, Any]]) -> int:
    """Turns of the model: each assistant message, or each run of items that a model has made."""
    count, within = 0, False
    for item in items:
        is_message = item.get("role") == "assistant"
        is_model_item = item.get("type") in _MODEL_ITEMS
        if is_message and "type" not in item:
            count, within = count + 1, False  # of chat and messages: one message is one turn
        elif is_message or is_model_item:
            count, within = count + (not within), True
        else:
            within = False
    return count


def read_request(api: Api, body: Mapping[str, Any], api_key: str | None) -> ModelRequest:
    """The request in a body; ``ValueError`` where it is none."""
    items = body.get("input" if api == "responses" else "messages")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("the history must be a list of objects")
    if not isinstance(body.get("model"), str):
        raise ValueError("you must provide a model parameter")
    tools = body.get("tools") or []
    return ModelRequest(
        api=api,
        model=body["model"],
        stream=bool(body.get("stream")),
        items=tuple(items),
        tools=tuple(str(_tool_name(tool)) for tool in tools),
        body=dict(body),
        api_key=api_key,
    )


def _tool_name(tool: Any) -> Any:
    if not isinstance(tool, dict):
        raise ValueError("a tool must be an object")
    function = tool.get("function")
    return (function if isinstance(function, dict) else tool).get("name") or tool.get("type")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in ("content", "text", "output", "arguments", "input", "function", "tool_calls"):
            yield from _texts(value.get(name))
