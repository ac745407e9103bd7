"""Replies as ``/v1/chat/completions`` gives them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swe_sdk.testing.scripted.events import event, pieces
from swe_sdk.testing.scripted.requests import ModelRequest
from swe_sdk.testing.scripted.script import Turn, Usage


def whole(request: ModelRequest, turn: Turn) -> dict[str, Any]:
    """The body of a reply that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.tools:
        message["tool_calls"] = [_call(request, turn, index) for index in range(len(turn.tools))]
    return {
        **_base(request, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(turn)}],
        "usage": usage(turn.usage),
    }


def stream(request: ModelRequest, turn: Turn) -> Iterator[bytes]:
    """The events of a streamed reply; usage comes last, and only where it was asked for, as with the original."""
    yield _chunk(request, {"role": "assistant", "content": ""})
    for piece in pieces(turn):
        yield _chunk(request, {"content": piece})
    for index, tool in enumerate(turn.tools):
        head = _call(request, turn, index)
        arguments = tool.arguments_json
        half = len(arguments) // 2  # in two pieces, as real ones come in several
        head["function"]["arguments"] = arguments[:half]
        yield _chunk(request, {"tool_calls": [{"index": index, **head}]})
        yield _chunk(request, {"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})
    yield _chunk(request, {}, _finish(turn))
    options = request.body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield event({**_base(request, "chat.completion.chunk"), "choices": [], "usage": usage(turn.usage)})
    yield event("[DONE]")


def usage(used: Usage) -> dict[str, Any]:
    """Tokens, as this interface names them."""
    total = used.prompt_tokens + used.completion_tokens
    return {"prompt_tokens": used.prompt_tokens, "completion_tokens": used.completion_tokens, "total_tokens": total}


def _base(request: ModelRequest, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{request.digest[:12]}", "object": kind, "created": 1700000000, "model": request.model}


def _chunk(request: ModelRequest, delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({**_base(request, "chat.completion.chunk"), "choices": [choice]})


def _call(request: ModelRequest, turn: Turn, index: int) -> dict[str, Any]:
    tool = turn.tools[index]
    function = {"name": tool.name, "arguments": tool.arguments_json}
    return {"id": f"call_{request.turn}_{index}", "type": "function", "function": function}


def _finish(turn: Turn) -> str:
    return turn.finish_reason or ("tool_calls" if turn.tools else "stop")
