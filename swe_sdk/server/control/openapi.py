"""The OpenAPI document of the control routes, from the requests, the replies and the table of codes."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

import swe_sdk
from swe_sdk.checkpoint.codes import CODES
from swe_sdk.checkpoint.messages import Operation, Status
from swe_sdk.checkpoint.participant import PREFIX, REQUESTS
from swe_sdk.checkpoint.protocol.table import RULES
from swe_sdk.server.control.replies import REPLIES
from swe_sdk.server.problems import CODES as PROBLEMS

_REF = "#/components/schemas/{model}"
_PROBLEMS = ("bad_json", "body_timeout", "body_too_large", "unsupported_encoding", "invalid_request")
"""What a body may be refused for, beside the codes of the protocol."""
_ERROR = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "detail"],
            "additionalProperties": False,
            "properties": {"code": {"type": "string"}, "detail": {"type": "string"}},
        }
    },
}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    paths: dict[str, Any] = {f"{PREFIX}/{name}": {"post": _post(name)} for name in REQUESTS}
    paths[f"{PREFIX}/status"] = {"get": _operation("Where the participant stands", Status.__name__, _errors())}
    return {
        "openapi": "3.1.0",
        "info": {"title": "swe_sdk checkpoint control", "version": swe_sdk.__version__},
        "paths": paths,
        "security": [{"token": []}],
        "components": {
            "schemas": {**_schemas(), "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


@cache
def _schemas() -> dict[str, Any]:
    replies: tuple[type[BaseModel], ...] = (*REPLIES.values(), Status)
    asked: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "validation") for model in REQUESTS.values()]
    told: list[tuple[type[BaseModel], JsonSchemaMode]] = [(model, "serialization") for model in replies]
    _keys, schema = models_json_schema([*asked, *told], ref_template=_REF)
    found: dict[str, Any] = schema["$defs"]
    return found


def _post(name: Operation) -> dict[str, Any]:
    operation = _operation(RULES[name].effect, REPLIES[name].__name__, _errors(*_PROBLEMS))
    body = {"required": True, "content": {"application/json": {"schema": _ref(REQUESTS[name].__name__)}}}
    return {**operation, "requestBody": body}


def _operation(summary: str, gives: str, errors: dict[str, Any]) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": _answer("Done", _ref(gives)), **errors}}


def _errors(*problems: str) -> dict[str, Any]:
    """By status, with the codes that it may have."""
    codes: dict[int, list[str]] = {}
    for status, code in [
        *((meaning.status, str(code)) for code, meaning in CODES.items()),
        *((PROBLEMS[one][0], one) for one in problems),
    ]:
        codes.setdefault(status, []).append(code)
    return {str(status): _answer(", ".join(names), _ref("Error")) for status, names in sorted(codes.items())}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _ref(model: str) -> dict[str, str]:
    return {"$ref": _REF.format(model=model)}
