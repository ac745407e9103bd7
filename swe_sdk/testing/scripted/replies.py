"""How replies look on the wire, shared by the three interfaces: bodies, streams, errors. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from swe_sdk.testing.scripted import chat, messages, responses
from swe_sdk.testing.scripted.requests import Api, ModelRequest
from swe_sdk.testing.scripted.script import Fault, Turn

_FORMS = {"chat": chat, "responses": responses, "messages": messages}
_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "invalid_request_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_ANTHROPIC_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_PIECE_BYTES = 1 << 16
_PADDING = "(here comes the padding of this turn)"


def whole(request: ModelRequest, turn: Turn) -> Iterator[bytes]:
    """The JSON body of a reply that is not streamed, in pieces."""
    if not turn.padding_bytes:
        yield json.dumps(_FORMS[request.api].whole(request, turn)).encode()
        return
    marked = turn.model_copy(update={"text": (turn.text or "") + _PADDING})
    head, tail = json.dumps(_FORMS[request.api].whole(request, marked)).encode().split(_PADDING.encode())
    yield head
    yield from padding(turn.padding_bytes)
    yield tail


def stream(request: ModelRequest, turn: Turn) -> Iterator[bytes]:
    """The server-sent events of a streamed reply, one at a time."""
    yield from _FORMS[request.api].stream(request, turn)


def padding(size_bytes: int) -> Iterator[bytes]:
    """``size_bytes`` letters."""
    piece = b"x" * _PIECE_BYTES
    for start in range(0, size_bytes, _PIECE_BYTES):
        yield piece[: size_bytes - start]


def error_body(fault: Fault, api: Api) -> bytes:
    """The body of an error, with the type that real endpoints give with that status."""
    code = fault.code or _CODES.get(fault.status)
    kind = fault.type or _TYPES.get(fault.status) or ("invalid_request_error" if fault.status < 500 else "server_error")
    if api == "messages":
        kind = fault.type or _ANTHROPIC_TYPES.get(fault.status) or (kind if fault.status < 500 else "api_error")
        return json.dumps({"type": "error", "error": {"type": kind, "message": fault.message}}).encode()
    error: dict[str, Any] = {"message": fault.message, "type": kind, "param": None, "code": code}
    return json.dumps({"error": error}).encode()
