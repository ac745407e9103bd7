"""JSON-RPC as MCP's streamable HTTP speaks it, without sessions and streams: one request, one JSON answer."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, newest first; what is used of it is the same in all of them."""


class RpcError(Exception):
    """A call that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class RpcCall(NamedTuple):
    """A request, or (without an id) a notification, which is not answered."""

    method: str
    params: dict[str, Any]
    id: str | int | None


def read_call(told: Any) -> RpcCall | Literal["response"]:
    """A call; a client's own response to something is told apart. ``RpcError``."""
    if not isinstance(told, dict) or told.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "send one JSON-RPC 2.0 object")
    method, params, name = told.get("method"), told.get("params"), told.get("id")
    if method is None and ("result" in told or "error" in told):
        return "response"
    if not isinstance(method, str) or not isinstance(params, dict | None):
        raise RpcError(INVALID_REQUEST, "method is a text, and params an object")
    if isinstance(name, bool) or not isinstance(name, str | int | None):
        raise RpcError(INVALID_REQUEST, "id is a text or an integer")
    return RpcCall(method, params or {}, name)


def result_of(call: RpcCall, result: dict[str, Any]) -> dict[str, Any]:
    """The answer to a call."""
    return {"jsonrpc": "2.0", "id": call.id, "result": result}


def error_of(name: str | int | None, error: RpcError) -> dict[str, Any]:
    """The answer to one that failed."""
    return {"jsonrpc": "2.0", "id": name, "error": {"code": error.code, "message": error.message}}


def initialized(params: dict[str, Any], name: str, version: str) -> dict[str, Any]:
    """The result of ``initialize``: the version that the client asked for where it is known, else our newest."""
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": name, "version": version},
    }
