"""Which requests pass the gateway: calls of a model, and nothing else that a key may be good for. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

ROUTES = frozenset(
    {"/chat/completions", "/completions", "/responses", "/messages", "/messages/count_tokens", "/embeddings"}
)
"""Paths below the base URL that are passed on, by POST. The endpoint's files, jobs and accounts are out of reach."""
_FORWARDED = ("content-type", "accept", "user-agent", "idempotency-key", "openai-beta")
_FORWARDED_FAMILIES = ("anthropic-",)
HEADERS_BYTES = 4 << 10
"""Of forwarded headers: servers take 8 KiB and more, and some break the connection beyond what they take."""
_PRINTABLE = re.compile(rb"[\x20-\x7e]*")
_DROPPED = (
    *("connection", "keep-alive", "proxy-authenticate", "te", "trailer", "transfer-encoding", "upgrade"),  # of one hop
    *("content-length", "date", "server"),
    *("set-cookie", "openai-organization", "openai-project"),  # of the user's account
)

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Target:
    """What a path asks for."""

    route: str
    """Below the base URL, such as ``/chat/completions``."""
    key: str | None
    """The key, where the path names it: ``/r/KEY/v1/...``."""


def read_path(path: str) -> Target | None:
    """The target of ``/v1/...`` or ``/r/KEY/v1/...``; None for any other path."""
    key = None
    if path.startswith("/r/"):
        key, _, path = path.removeprefix("/r/").partition("/")
        path = f"/{path}"
    return Target(path.removeprefix("/v1"), key) if path.startswith("/v1/") else None


@dataclass(frozen=True)
class Asked:
    """What the body of a request says."""

    model: str
    is_stream: bool


def read_body(body: bytes) -> Asked | None:
    """The model that a request names, and whether it wants a stream; None where it is no request.

    Nor is one that names two, in whatever case, or in an encoding but UTF-8: the endpoint might take the other one.
    """
    try:
        value = json.loads(body.decode(), object_pairs_hook=_Members)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, _Members) or [name for name, _ in value if name.lower() == "model"] != ["model"]:
        return None
    told = dict(value)
    return Asked(told["model"], told.get("stream") is True) if isinstance(told["model"], str) else None


class _Members(list[tuple[str, Any]]):
    """Of an object, repeated ones included."""


def forwarded_headers(headers: Headers) -> Headers:
    """Those of an agent's that say how to read its request; of plain text, for no endpoint stumbles over that."""
    return [
        (name, value)
        for name, value in headers
        if (name.decode("latin-1") in _FORWARDED or name.decode("latin-1").startswith(_FORWARDED_FAMILIES))
        and _PRINTABLE.fullmatch(value)
    ]


def headers_fit(headers: Headers) -> bool:
    """Whether an endpoint will take as many as an agent wants forwarded."""
    return sum(len(name) + len(value) + 4 for name, value in forwarded_headers(headers)) <= HEADERS_BYTES


def request_headers(headers: Headers, api_key: str | None, route: str) -> Headers:
    """The headers that go to the endpoint: those that say how to read the request, and the user's own key."""
    kept = forwarded_headers(headers)
    kept.append((b"accept-encoding", b"identity"))  # the ledger keeps what was said, not how it was packed
    if api_key:
        secret = api_key.encode("latin-1")
        kept.append((b"authorization", b"Bearer " + secret))
        if route.startswith("/messages"):
            kept.append((b"x-api-key", secret))
    return kept


def response_headers(headers: Headers, secrets: tuple[str, ...] = ()) -> Headers:
    """The headers that go to the agent: all but those of the connection, of the account, or that tell a secret."""
    told = [secret.encode("latin-1") for secret in secrets if secret]
    return [
        (name.lower(), value)
        for name, value in headers
        if name.lower().decode("latin-1") not in _DROPPED and not any(secret in value for secret in told)
    ]
