"""Errors as agents get them: with the status *and* the type that say whether another try makes sense. Pure.

Harnesses decide on both. OpenCode repeats a 401 whose type is ``server_error`` for ever and stops at one that is an
``invalid_request_error``; mini-swe-agent gives up at 401, 403 and 404.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_TYPES = {429: "rate_limit_error"}
_OF_SERVER = ("server_error", "api_error", "internal_error", "internal_server_error", "overloaded_error")
_LONGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Refusal:
    """An error that the gateway itself answers with."""

    status: int
    code: str
    message: str

    def body(self, route: str) -> bytes:
        """Its body, in the form of the interface that was called."""
        return json.dumps(_error(self.status, self.code, self.message, route)).encode()


UNKNOWN_KEY = Refusal(401, "invalid_api_key", "Incorrect API key provided.")
UNKNOWN_PATH = Refusal(404, "unknown_url", "The model gateway does not serve this path.")
TOO_LARGE = Refusal(413, "request_too_large", "The request is larger than the model gateway takes.")
HEADERS_TOO_LARGE = Refusal(431, "headers_too_large", "The headers are larger than the model gateway passes on.")
NO_REQUEST = Refusal(400, "invalid_json", "The body is not a JSON object with a model.")
SPENT = Refusal(403, "allowance_spent", "This attempt may make no further calls of the model.")
UNREACHABLE = Refusal(503, "endpoint_unreachable", "The model endpoint cannot be reached.")
SILENT = Refusal(504, "endpoint_silent", "The model endpoint did not answer in time.")
BROKE = Refusal(502, "endpoint_broke", "The model endpoint broke the connection.")


def unknown_model(name: str) -> Refusal:
    """For a model that agents may not call."""
    return Refusal(404, "model_not_found", f"The model {name[:200]!r} does not exist or you do not have access to it.")


def error_type(status: int) -> str:
    """The type that goes with a status."""
    return _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")


def is_retryable(status: int) -> bool:
    """Whether a client should try again: as OpenAI's own clients decide it."""
    return status in (408, 409, 429) or status >= 500


def corrected(status: int, body: bytes, route: str, secrets: tuple[str, ...] = ()) -> bytes:
    """The body of an error of the endpoint, as it came, unless it would mislead or tell a secret.

    Where it is no JSON error, or where its type contradicts its status, the type is put right. ``secrets`` (endpoints
    quote the key that they refuse) are struck out.
    """
    for secret in filter(None, secrets):
        body = body.replace(secret.encode(), b"[secret]")
    message, code, kind = _read(body)
    if message is None:
        text = body[:2000].decode("utf-8", "replace").strip() or "the model endpoint gave no reason"
        return json.dumps(_error(status, None, text, route)).encode()
    clear = _struck(message, secrets)  # JSON can write a key in other ways
    if clear != message:
        return json.dumps(_error(status, None, clear, route)).encode()
    if not is_retryable(status) and (kind is None or kind in _OF_SERVER):
        return json.dumps(_error(status, code, message, route)).encode()
    return body


def _struck(text: str, secrets: tuple[str, ...]) -> str:
    for secret in filter(None, secrets):
        text = text.replace(secret, "[secret]")
    return text


def error_name(body: bytes) -> str:
    """Code or type of an error, for the ledger; "" where there is none."""
    _message, code, kind = _read(body)
    return str(code or kind or "")[:100]


def _read(body: bytes) -> tuple[str | None, Any, Any]:
    """Message, code and type of an error in JSON; None, None, None where it is none."""
    try:
        error = json.loads(body[:_LONGEST_BYTES]).get("error")
    except (ValueError, AttributeError, RecursionError):
        return None, None, None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None, None, None
    return error["message"], error.get("code"), error.get("type")


def _error(status: int, code: Any, message: str, route: str) -> dict[str, Any]:
    if route.startswith("/messages"):
        kind = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}.get(status)
        return {"type": "error", "error": {"type": kind or error_type(status), "message": message}}
    return {"error": {"message": message, "type": error_type(status), "param": None, "code": code}}
