"""JSON to models, with errors that name what is wrong."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from swe_sdk.errors import InputError

M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], value: Any) -> M:
    """The value as a model; ``InputError`` names the first field that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "the request"
        raise InputError(f"{field}: {first['msg']}", remedy="the server's /openapi.json says what it takes") from None
