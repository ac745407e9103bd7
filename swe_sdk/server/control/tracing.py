"""The trace context of control calls, by OpenTelemetry where it is installed; else nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any


@cache
def _propagate() -> Any:
    try:
        return import_module("opentelemetry.propagate")
    except ImportError:
        return None


def outgoing() -> dict[str, str]:
    """Headers that carry the current span along."""
    headers: dict[str, str] = {}
    if _propagate() is not None:
        _propagate().inject(headers)
    return headers


@contextmanager
def incoming(headers: Mapping[str, str]) -> Iterator[None]:
    """A block whose spans are children of the one that came along."""
    if _propagate() is None:
        yield
        return
    context = import_module("opentelemetry.context")
    token = context.attach(_propagate().extract(dict(headers)))
    try:
        yield
    finally:
        context.detach(token)
