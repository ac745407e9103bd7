"""The OpenAPI documents of the servers of an episode, from the models and the tables of codes."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

import swe_sdk
from swe_sdk.checkpoint.codes import CODES as REFUSALS
from swe_sdk.exports.nemo_gym_row import NemoGymRow
from swe_sdk.server.gym import contract
from swe_sdk.server.gym.loan_messages import LOANS, ExecLine, ExecOrder, ListenOrder, ListenReply
from swe_sdk.server.models import (
    ErrorResponse,
    GradeRequest,
    GradeResponse,
    ModelResponse,
    ResponsesCreateParams,
    SessionRequest,
    VerifyRequest,
    VerifyResponse,
)
from swe_sdk.server.problems import CODES
from swe_sdk.server.settings import ServerSettings
from swe_sdk.server.wire import ROLLOUTS

_REF = "#/components/schemas/{model}"
_ATTEMPT = {"name": "capture_key", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


class _Post(NamedTuple):
    summary: str
    takes: tuple[type[BaseModel], ...]
    gives: tuple[type[BaseModel], ...]


def resources_document(settings: ServerSettings) -> dict[str, Any]:
    """Of a resources server."""
    posts = {
        "/seed_session": _Post(
            "Make a session, and lend its sandbox; without an episode_id, nothing is kept",
            (contract.ResourcesSeedRequest, SessionRequest),
            (contract.ResourcesSeedReply, SessionRequest),
        ),
        "/verify": _Post(
            "The verdict of a session, or of a patch in what a model said",
            (contract.ResourcesVerifyRequest, VerifyRequest),
            (contract.Verification, VerifyResponse),
        ),
        "/close_session": _Post(
            "End a session",
            (contract.ResourcesCloseRequest, SessionRequest),
            (contract.ResourcesCloseReply, SessionRequest),
        ),
    }
    grade = {"/grade": _Post("Grade the bytes of a patch", (GradeRequest,), (GradeResponse,))}
    reverify = _get("That posts may be repeated", {"const": "stateless"})
    others = {"/reverify_mode": reverify, **_loans(), "/mcp": _mcp()}
    return _document("resources", settings, _with_attempts(posts) | _paths(grade), others)


def agent_document(settings: ServerSettings, *, flat: bool) -> dict[str, Any]:
    """Of an agent server; with its legacy ``/run``, or without."""
    posts = {
        "/v1/agent_sessions": _Post("Make a session", (contract.AgentSeedRequest,), (contract.AgentSeedReply,)),
        "/v1/agent_sessions/close": _Post("End one", (contract.AgentCloseRequest,), (contract.AgentCloseReply,)),
        "/v1/responses": _Post("Activate the agent in a session", (ResponsesCreateParams,), (ModelResponse,)),
    }
    if flat:
        posts["/run"] = _Post("A whole episode, from a flat row to a flat row", (VerifyRequest,), (NemoGymRow,))
    return _document("agent", settings, _with_attempts(posts), {})


def environment_document(settings: ServerSettings) -> dict[str, Any]:
    """Of an environment server."""
    run = {"/run": _Post("One turn of a single agent", (contract.EpisodeRequest,), (contract.EpisodeReply,))}
    return _document("environment", settings, _with_attempts(run), {})


def _document(kind: str, settings: ServerSettings, posts: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    secured = settings.token is not None
    if secured:
        for operation in posts.values():
            operation["post"]["security"] = [{"token": []}]
    schemes = {"lent": {"type": "http", "scheme": "bearer"}, "token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"swe_sdk {kind} server", "version": swe_sdk.__version__},
        "paths": {
            **posts,
            **others,
            "/health": _get("Whether posts are accepted; 503 once the server was told to stop", {"type": "object"}),
            "/openapi.json": _get("This document", {"type": "object"}),
        },
        "components": {"schemas": _models()[1], "securitySchemes": schemes},
    }


def _with_attempts(posts: dict[str, _Post]) -> dict[str, Any]:
    below = {f"{ROLLOUTS}/{{capture_key}}{path}": post for path, post in posts.items()}
    attempts = {path: {**item, "parameters": [_ATTEMPT]} for path, item in _paths(below).items()}
    return {**_paths(posts), **attempts}


def _paths(posts: dict[str, _Post]) -> dict[str, Any]:
    return {path: {"post": _operation(post)} for path, post in posts.items()}


def _operation(post: _Post) -> dict[str, Any]:
    return {
        "summary": post.summary,
        "requestBody": {"required": True, "content": _json(_asked(*post.takes))},
        "responses": {"200": {"description": "Done", "content": _json(_told(*post.gives))}, **_errors()},
    }


def _errors() -> dict[str, Any]:
    """By status, with the codes that it may have."""
    lost = {410: ["session_lost: of a worker that is gone"], 502: ["worker_lost: while it was asked"]}
    told: dict[int, list[str]] = {**lost, 503: ["a kind of failure, such as create_failed"]}
    for status, code in [
        *((status, code) for code, (status, _meaning) in CODES.items() if code != "internal_error"),
        *((meaning.status, str(code)) for code, meaning in REFUSALS.items()),
    ]:
        codes = told.setdefault(status, [])
        codes.extend([] if code in codes else [code])
    error = _told(ErrorResponse)
    return {str(status): {"description": ", ".join(told[status]), "content": _json(error)} for status in sorted(told)}


def _loans() -> dict[str, Any]:
    """What the token of a session opens."""
    parameters = [{"name": "session_id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}]
    lines = "application/x-ndjson"
    path = {"name": "path", "in": "query", "required": True, "schema": {"type": "string"}}
    mode = {"name": "mode", "in": "query", "schema": {"type": "string", "pattern": "^[0-7]{1,3}$"}}
    file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    calls: dict[str, dict[str, Any]] = {
        "exec": {"post": _call("Run a command; output, and at last its result", ExecOrder, {lines: _line(ExecLine)})},
        "files": {
            "get": {**_call("Read a file", None, file), "parameters": [path]},
            "put": {**_call("Write a file", None, None), "parameters": [path, mode], "requestBody": {"content": file}},
        },
        "status": {"get": _call("How the sandbox is", None, _json({"type": "object"}))},
        "listen": {"post": _call("Listen in it, and pass connections on", ListenOrder, {lines: _line(ListenReply)})},
    }
    return {f"{LOANS}/{{session_id}}/{name}": {**item, "parameters": parameters} for name, item in calls.items()}


def _call(summary: str, takes: type[BaseModel] | None, gives: dict[str, Any] | None) -> dict[str, Any]:
    done = {"200": {"description": "Done", "content": gives}} if gives else {"204": {"description": "Done"}}
    body = {"requestBody": {"required": True, "content": _json(_asked(takes))}} if takes else {}
    return {"summary": summary, "security": [{"lent": []}], "responses": {**done, **_errors()}, **body}


def _mcp() -> dict[str, Any]:
    done = {"200": {"description": "The answer", "content": _json({"type": "object"})}, "202": {"description": "Heard"}}
    failed = {"400": {"description": "No JSON-RPC", "content": _json({"type": "object"})}}
    body = {"required": True, "content": _json({"type": "object"})}
    summary = "JSON-RPC of MCP's streamable HTTP, without sessions"
    return {"post": {"summary": summary, "requestBody": body, "responses": {**_errors(), **done, **failed}}}


def _get(summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": {"200": {"description": summary, "content": _json(schema)}}}}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _line(model: type[BaseModel]) -> dict[str, Any]:
    return {"schema": _told(model)}


def _asked(*models: type[BaseModel]) -> dict[str, Any]:
    return _any_of([_models()[0][model, "validation"] for model in models])


def _told(*models: type[BaseModel]) -> dict[str, Any]:
    return _any_of([_models()[0][model, "serialization"] for model in models])


def _any_of(refs: list[dict[str, Any]]) -> dict[str, Any]:
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


@cache
def _models() -> tuple[Any, dict[str, Any]]:
    """A reference for each model, as a request and as a reply; and what they refer to."""
    models: tuple[type[BaseModel], ...] = (
        *(contract.ResourcesSeedRequest, contract.ResourcesSeedReply, contract.ResourcesVerifyRequest),
        *(contract.Verification, contract.ResourcesCloseRequest, contract.ResourcesCloseReply),
        *(contract.AgentSeedRequest, contract.AgentSeedReply, contract.AgentCloseRequest, contract.AgentCloseReply),
        *(contract.EpisodeRequest, contract.EpisodeReply, ResponsesCreateParams, ModelResponse, NemoGymRow),
        *(VerifyRequest, VerifyResponse, GradeRequest, GradeResponse, SessionRequest, ErrorResponse),
        *(ExecOrder, ExecLine, ListenOrder, ListenReply),
    )
    modes: list[JsonSchemaMode] = ["validation", "serialization"]
    keys, schema = models_json_schema([(model, mode) for model in models for mode in modes], ref_template=_REF)
    return keys, schema["$defs"]
