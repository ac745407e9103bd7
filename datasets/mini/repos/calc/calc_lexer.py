"""Split the text of an expression into tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class CalcError(ValueError):
    """The expression cannot be read or evaluated."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at position {position})")
        self.position = position


class Token(NamedTuple):
    kind: str
    text: str
    position: int


_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<op>[-+*/%^(),])
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of ``text`` and, last, one of kind ``end``."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CalcError(f"unexpected character {text[position]!r}", position)
        kind = str(match.lastgroup)
        if kind != "space":
            yield Token(kind, match.group(), position)
        position = match.end()
    yield Token("end", "", len(text))
