"""The user's own model endpoint."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator

from swe_sdk.errors import InputError
from swe_sdk.model.record import Record

_REMEDY = 'such as swe.ModelEndpoint(base_url="https://api.example.com/v1", model="gpt")'


class ModelEndpoint(Record):
    """An OpenAI-compatible endpoint and the model to use there. Its key stays in this process: no box ever sees it.

    ``InputError``, without any of the values, names the fields that cannot be.
    """

    base_url: str
    """Such as ``https://api.example.com/v1``; paths like ``/chat/completions`` are added to it."""
    model: str = Field(min_length=1)
    """The model's name, as the endpoint knows it."""
    api_key: SecretStr | None = None
    other_models: tuple[str, ...] = ()
    """Further models that agents may call. Requests for any other one are refused: the key is the user's."""

    if not TYPE_CHECKING:  # for type checkers it takes its fields

        def __init__(self, **fields: Any) -> None:
            try:
                super().__init__(**fields)
            except ValidationError as error:  # its own text would show the key
                raise InputError(_problems(error), remedy=_REMEDY) from None

    @field_validator("base_url")
    @classmethod
    def _plain(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or (parts.port or 0) > 65535:
            raise ValueError("the base URL of a model endpoint starts with http:// or https:// and names a host")
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("the base URL of a model endpoint has no user, query or fragment; give the key as api_key")
        return url.rstrip("/")

    @property
    def models(self) -> tuple[str, ...]:
        """All models that agents may call."""
        return (self.model, *self.other_models)


def _problems(error: ValidationError) -> str:
    told = "; ".join(
        f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}" for one in error.errors()
    )
    return f"this is no model endpoint: {told}"


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine's own loopback interface (or no address at all)."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
