"""Spans and durations of checkpoint operations, by the OpenTelemetry API where it is installed; else nothing.

A participant's operation is the span ``gym.checkpoint.<operation>`` (release included), with the children
``wait_ready``, ``export``, ``write``, ``read`` and ``install``; a coordinator's is
``gym.checkpoint.coordinate.<operation>``, with a child for each stage of prepare. Attributes: ``id``,
``participant_kind``, ``instance``, ``records``, ``bytes``, ``phase``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

NAME = "swe_sdk.checkpoint"
DURATION = "gym.checkpoint.duration"
"""The histogram of durations in seconds, by operation, kind and outcome."""


class Span(Protocol):
    """The part of OpenTelemetry's spans that is used."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Attach a value."""


class _NoSpan:
    def set_attribute(self, key: str, value: Any) -> None:
        """Nobody listens."""


class _Api(NamedTuple):
    trace: Any
    metrics: Any


@cache
def _api() -> _Api | None:
    try:
        return _Api(import_module("opentelemetry.trace"), import_module("opentelemetry.metrics"))
    except ImportError:
        return None


@contextmanager
def span(name: str, **attributes: Any) -> Iterator[Span]:
    """A span around a block; errors are recorded in it and go on."""
    api = _api()
    if api is None:
        yield _NoSpan()
        return
    shown = {key: value for key, value in attributes.items() if value is not None}
    with api.trace.get_tracer(NAME).start_as_current_span(f"gym.checkpoint.{name}", attributes=shown) as current:
        yield current


@contextmanager
def operation(name: str, *, kind: str, **attributes: Any) -> Iterator[Span]:
    """A span around an operation, and its duration by operation, kind and outcome ("ok", else the error's name)."""
    started, outcome = time.perf_counter(), "ok"
    try:
        with span(name, participant_kind=kind, **attributes) as current:
            yield current
    except BaseException as error:
        outcome = getattr(error, "code", type(error).__name__)
        raise
    finally:
        _record(time.perf_counter() - started, {"operation": name, "kind": kind, "outcome": outcome})


def _record(seconds: float, attributes: dict[str, str]) -> None:
    api = _api()
    if api is not None:
        histogram = api.metrics.get_meter(NAME).create_histogram(DURATION, unit="s")
        histogram.record(seconds, attributes)
