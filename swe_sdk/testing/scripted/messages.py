"""Replies as ``/v1/messages`` gives them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from swe_sdk.testing.scripted.events import event, pieces
from swe_sdk.testing.scripted.requests import ModelRequest
from swe_sdk.testing.scripted.script import ToolUse, Turn


def whole(request: ModelRequest, turn: Turn) -> dict[str, Any]:
    """The body of a reply that is not streamed."""
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [_use(request, tool, index) for index, tool in enumerate(turn.tools)]
    return {**_message(request, turn), "content": content}


def stream(request: ModelRequest, turn: Turn) -> Iterator[bytes]:
    """The events of a streamed reply."""
    begun = {**_message(request, turn), "stop_reason": None, "content": []}
    yield _event("message_start", message=begun)
    texts = list(pieces(turn))
    if texts:
        deltas = [{"type": "text_delta", "text": piece} for piece in texts]
        yield from _block(0, {"type": "text", "text": ""}, deltas)
    for index, tool in enumerate(turn.tools):
        delta = {"type": "input_json_delta", "partial_json": tool.arguments_json}
        yield from _block(index + bool(texts), {**_use(request, tool, index), "input": {}}, [delta])
    end = {"stop_reason": _finish(turn), "stop_sequence": None}
    yield _event("message_delta", delta=end, usage={"output_tokens": turn.usage.completion_tokens})
    yield _event("message_stop")


def _block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[bytes]:
    yield _event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **data: Any) -> bytes:
    return event({"type": kind, **data}, kind)


def _message(request: ModelRequest, turn: Turn) -> dict[str, Any]:
    return {
        "id": f"msg_{request.digest[:12]}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "stop_reason": _finish(turn),
        "stop_sequence": None,
        "usage": {"input_tokens": turn.usage.prompt_tokens, "output_tokens": turn.usage.completion_tokens},
    }


def _use(request: ModelRequest, tool: ToolUse, index: int) -> dict[str, Any]:
    arguments = json.loads(tool.arguments) if isinstance(tool.arguments, str) else tool.arguments
    return {"type": "tool_use", "id": f"toolu_{request.turn}_{index}", "name": tool.name, "input": arguments}


def _finish(turn: Turn) -> str:
    return turn.finish_reason or ("tool_use" if turn.tools else "end_turn")
