"""Server-sent events, and the pieces that text is streamed in. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from swe_sdk.testing.scripted.script import Turn

_WORD = re.compile(r"\S+\s*|\s+")
_PIECE_BYTES = 1 << 14


def event(data: Mapping[str, Any] | str, name: str | None = None) -> bytes:
    """One event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"{f'event: {name}' + chr(10) if name else ''}data: {text}\n\n".encode()


def pieces(turn: Turn) -> Iterator[str]:
    """The text of a turn word by word, then its padding."""
    yield from _WORD.findall(turn.text or "")
    for start in range(0, turn.padding_bytes, _PIECE_BYTES):
        yield "x" * min(_PIECE_BYTES, turn.padding_bytes - start)
