"""A value with its place, and table values as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple


class Located(NamedTuple):
    """A value of a file or a list, and where it stands there (``tasks.jsonl:12``)."""

    where: str
    value: Any


def plain(value: Any) -> Any:
    """``value`` with the arrays, timestamps and nulls of table libraries as lists, texts and absent fields."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items() if not _is_null(item)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # an array or a number of numpy
        return plain(value.tolist())
    return value.isoformat() if hasattr(value, "isoformat") else value


def _is_null(value: Any) -> bool:
    """Whether it is None, NaN or NaT."""
    return value is None or (isinstance(value, float | datetime) and value != value)
