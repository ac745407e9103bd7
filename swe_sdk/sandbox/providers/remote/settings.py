"""Settings of a remote provider: what is given, and environment variables for the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from swe_sdk.errors import InputError, ProviderUnavailable
from swe_sdk.model.record import Record

T = TypeVar("T", bound=Record)


def read_settings(
    kind: type[T],
    provider: str,
    variables: Mapping[str, str],
    given: Mapping[str, Any],
    environ: Mapping[str, str] | None = None,
) -> T:
    """``variables`` names that of each field. ``InputError`` for what none of them can be."""
    source = os.environ if environ is None else environ
    found = {name: source[variable] for name, variable in variables.items() if source.get(variable)}
    try:
        return kind.model_validate({**found, **given})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        remedy = f"see {', '.join(variables.values())}"
        raise InputError(f"settings of {provider}: {problems}", remedy=remedy) from None


def checked_key(key: str, variable: str) -> str:
    """The key; ``ProviderUnavailable``, which does not show it, for one that no request could carry."""
    if not (key.isascii() and key.isprintable()):
        raise ProviderUnavailable("the key holds characters that no key has", remedy=f"set {variable} anew")
    return key


def plain_address(address: str) -> str:
    """An address that settings may hold, as these are written down and shown: ``ValueError`` for one that is none, or
    that has a password in it."""
    parts = urlsplit(address if "//" in address else f"//{address}")
    if "@" in parts.netloc:
        raise ValueError("it must have no user and no password in it")
    if not parts.hostname or parts.scheme not in ("", "http", "https") or parts.port == 0:
        raise ValueError("it is no address of a server")
    return address
