"""Replies as ``/v1/responses`` gives them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from swe_sdk.testing.scripted.events import event, pieces
from swe_sdk.testing.scripted.requests import ModelRequest
from swe_sdk.testing.scripted.script import Turn


def whole(request: ModelRequest, turn: Turn) -> dict[str, Any]:
    """The body of a reply that is not streamed."""
    calls = [_call(request, turn, index) for index in range(len(turn.tools))]
    return _response(request, turn, [*_message(request, turn.text), *calls])


def stream(request: ModelRequest, turn: Turn) -> Iterator[bytes]:
    """The events of a streamed reply."""
    events = _events(request, turn)
    for number, data in enumerate(events):
        yield event({**data, "sequence_number": number}, data["type"])


def _events(request: ModelRequest, turn: Turn) -> Iterator[dict[str, Any]]:
    text = "".join(pieces(turn))
    yield {"type": "response.created", "response": _response(request, turn, [], status="in_progress")}
    output: list[dict[str, Any]] = []
    for item in _message(request, text):
        yield from _text_events(request, turn, item)
        output.append(item)
    for index in range(len(turn.tools)):
        item = _call(request, turn, index)
        yield from _call_events(item, len(output))
        output.append(item)
    yield {"type": "response.completed", "response": _response(request, turn, output)}


def _text_events(request: ModelRequest, turn: Turn, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = item["content"][0]
    begun = {**item, "status": "in_progress", "content": []}
    yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in pieces(turn):
        yield {"type": "response.output_text.delta", **place, "delta": piece}
    yield {"type": "response.output_text.done", **place, "text": part["text"]}
    yield {"type": "response.content_part.done", **place, "part": part}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}


def _call_events(item: dict[str, Any], index: int) -> Iterator[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    begun = {**item, "status": "in_progress", "arguments": ""}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _response(
    request: ModelRequest, turn: Turn, output: list[dict[str, Any]], status: str = "completed"
) -> dict[str, Any]:
    used = turn.usage
    usage = {
        "input_tokens": used.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": used.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": used.prompt_tokens + used.completion_tokens,
    }
    return {
        "id": f"resp_{request.digest[:12]}",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": request.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": request.body.get("tools") or [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def _message(request: ModelRequest, text: str | None) -> list[dict[str, Any]]:
    if not text:
        return []
    content = [{"type": "output_text", "text": text, "annotations": []}]
    name = f"msg_{request.turn}"
    return [{"type": "message", "id": name, "role": "assistant", "status": "completed", "content": content}]


def _call(request: ModelRequest, turn: Turn, index: int) -> dict[str, Any]:
    tool, place = turn.tools[index], f"{request.turn}_{index}"
    return {
        "type": "function_call",
        "id": f"fc_{place}",
        "call_id": f"call_{place}",
        "name": tool.name,
        "arguments": tool.arguments_json,
        "status": "completed",
    }
