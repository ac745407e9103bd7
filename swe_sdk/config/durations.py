"""Durations as people write them: ``"30m"``, ``"1h30m"``, ``90``."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from swe_sdk.errors import InputError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])\s*")
_SHAPE = 'write seconds as a number, or a text such as "90s", "30m", "1h30m"'


def seconds_of(value: float | str | timedelta) -> float:
    """Seconds of a number (seconds already), a ``timedelta``, or a text of numbers with units ms, s, m, h and d.

    Raises ``InputError`` for anything else, for negative and for endless durations.
    """
    seconds = _read(value)
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        raise InputError(f"{value!r} is no duration", remedy=_SHAPE)
    return seconds


def shown_duration(seconds: float) -> str:
    """The shortest text that means the same: ``5400`` is ``1h30m``, ``0.5`` is ``500ms``."""
    left, parts = round(seconds * 1000), []
    for unit, size_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _read(value: float | str | timedelta) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return _read_text(value.strip()) if isinstance(value, str) else None


def _read_text(text: str) -> float | None:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def _validated(value: Any) -> Any:
    return value if value is None else seconds_of(value)


Seconds = Annotated[float, BeforeValidator(_validated), Field(gt=0)]
"""A field in seconds, which a file or a call may also give as a text with units."""
