"""Settings of a remote provider: what is given, and environment variables for the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from swe_sdk.errors import InputError
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
