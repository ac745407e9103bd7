"""The OpenAPI document, from the models and the table of codes."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

import swe_sdk
from swe_sdk.server.models import (
    ErrorResponse,
    GradeRequest,
    GradeResponse,
    HealthResponse,
    SessionRequest,
    VerifyRequest,
    VerifyResponse,
)
from swe_sdk.server.problems import CODES
from swe_sdk.server.settings import ServerSettings

_REF = "#/components/schemas/{model}"
_REQUESTS: tuple[type[BaseModel], ...] = (VerifyRequest, GradeRequest, SessionRequest)
_RESPONSES: tuple[type[BaseModel], ...] = (VerifyResponse, GradeResponse, HealthResponse, ErrorResponse)
_POST_CODES = (
    "bad_json",
    "unauthorized",
    "unknown_task",
    "body_timeout",
    "body_too_large",
    "unsupported_encoding",
    "invalid_request",
    "too_busy",
    "draining",
)


def document(settings: ServerSettings) -> dict[str, Any]:
    """OpenAPI 3.1, as this server is set: with a token, or without; with metrics, or without."""
    has_token = settings.token is not None
    paths = {
        "/verify": _post("Grade the patch in what a model said", VerifyRequest, VerifyResponse, has_token),
        "/grade": _post("Grade the bytes of a patch", GradeRequest, GradeResponse, has_token),
        "/seed_session": _post("Begin a session, of which nothing is kept", SessionRequest, None, has_token),
        "/close_session": _post("End a session, of which nothing was kept", SessionRequest, None, has_token),
        "/health": {"get": _health()},
        "/openapi.json": {"get": _get("This document", "application/json", {"type": "object"})},
        "/reverify_mode": {"get": _get("That posts may be repeated", "application/json", {"const": "stateless"})},
    }
    if settings.metrics:
        metrics = _get("For Prometheus", "text/plain", {"type": "string"})
        paths["/metrics"] = {"get": _secured(metrics, has_token)}
    components: dict[str, Any] = {"schemas": _schemas()}
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "swe_sdk verifier", "version": swe_sdk.__version__},
        "paths": paths,
        "components": components,
    }


@cache
def _schemas() -> dict[str, Any]:
    asked: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in _REQUESTS]
    answered: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "serialization") for model in _RESPONSES]
    _keys, schema = models_json_schema([*asked, *answered], ref_template=_REF)
    found: dict[str, Any] = schema["$defs"]
    return found


def _post(summary: str, takes: type[BaseModel], gives: type[BaseModel] | None, has_token: bool) -> dict[str, Any]:
    codes = [code for code in _POST_CODES if has_token or code != "unauthorized"]
    answers = {"200": _answer("The verdict" if gives else "The session's id, if it has one", _schema(gives))}
    operation = {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": _schema(takes)}}},
        "responses": answers | {str(CODES[code][0]): _answer(CODES[code][1], _schema(ErrorResponse)) for code in codes},
    }
    return {"post": _secured(operation, has_token, answers=False)}


def _get(summary: str, media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    answer = {"description": summary, "content": {media_type: {"schema": schema}}}
    return {"summary": summary, "responses": {"200": answer}}


def _health() -> dict[str, Any]:
    told = _schema(HealthResponse)
    answers = {"200": _answer("Posts are accepted", told), "503": _answer("The server was told to stop", told)}
    return {"summary": "Whether posts are accepted", "responses": answers}


def _secured(operation: dict[str, Any], has_token: bool, *, answers: bool = True) -> dict[str, Any]:
    if not has_token:
        return operation
    if answers:
        operation["responses"]["401"] = _answer(CODES["unauthorized"][1], _schema(ErrorResponse))
    return {**operation, "security": [{"token": []}]}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _schema(model: type[BaseModel] | None) -> dict[str, Any]:
    return {"type": "object"} if model is None else {"$ref": _REF.format(model=model.__name__)}
