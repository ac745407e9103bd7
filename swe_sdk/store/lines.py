"""Lines of journals: events to bytes and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from swe_sdk.store.events import SCHEMA, Event, Line

UPGRADES: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For each old version of the schema, what makes a line of the next version out of one of that version."""


class BadLine(ValueError):
    """It cannot be read: a crash left it half-written, or something else wrote it."""


class NewerLine(BadLine):
    """It was written by a newer version of this package."""


def encode_line(n: int, t: float, event: Event) -> bytes:
    """One line, with its newline. Text that is no Unicode (lone surrogates) is replaced: events are for show."""
    return b'{"v":%d,"n":%d,"t":%.6f,"event":%b}\n' % (SCHEMA, n, t, _event_json(event))


def decode_line(data: bytes) -> Line:
    """What a line says, whatever version wrote it; ``BadLine`` where that cannot be known."""
    try:
        line = Line.model_validate_json(data)
    except ValidationError as error:
        return _decode_old(data, error)
    return line if line.v == SCHEMA else _decode_old(data, None)


def _decode_old(data: bytes, error: ValidationError | None) -> Line:
    try:
        raw = json.loads(data)
        version = raw["v"]
        if not isinstance(version, int) or version == SCHEMA:
            raise BadLine(f"not a line of a journal: {error}")
        if version > SCHEMA:
            raise NewerLine(f"a line of schema version {version}, and {SCHEMA} is the newest that is known")
        for number in range(version, SCHEMA):
            raw = UPGRADES[number](raw)
        return Line.model_validate({**raw, "v": SCHEMA})
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise problem if isinstance(problem, BadLine) else BadLine(f"not a line of a journal: {problem}") from problem


def _event_json(event: Event) -> bytes:
    try:
        return event.model_dump_json().encode()
    except ValueError:  # pydantic's error for text that UTF-8 has no bytes for
        return json.dumps(event.model_dump(mode="json"), ensure_ascii=False).encode("utf-8", "replace")
