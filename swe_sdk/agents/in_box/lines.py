"""Lines, and JSON objects on them, in a stream of bytes that comes in pieces from a program that may print anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_MAX_LINE_BYTES = 8 << 20


class Lines:
    """Whole lines. One that is longer than ``max_line_bytes`` is passed over, and no more of it kept than that."""

    def __init__(self, max_line_bytes: int = _MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._open = bytearray()
        self._is_skipping = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The lines that are complete with this piece, without their ends."""
        *ends, rest = piece.split(b"\n")
        for end in ends:
            self._add(end)
            line, was_skipping = bytes(self._open), self._is_skipping
            self._open.clear()
            self._is_skipping = False
            if not was_skipping:
                yield line
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        if self._is_skipping or len(self._open) + len(piece) > self._max:
            self._is_skipping = True
            self._open.clear()
        else:
            self._open += piece


def json_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object on a line; None where there is none."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
