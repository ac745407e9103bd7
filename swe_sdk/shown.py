"""Text that somebody else wrote (agents, tests, data sets), made safe to show.

What such a text can do to its reader depends on where it is shown: markup runs in a browser, and control characters
move the cursor, recolour or rewrite what a terminal shows, or turn the order of letters around.
"""

from __future__ import annotations

import re
from html import escape

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_PICTURES = 0x2400
_DELETE, _DELETE_PICTURE = 0x7F, "\u2421"


def neutral(text: str) -> str:
    """``text`` for a terminal: control characters (but newline and tab) become visible signs that do nothing.

    An escape becomes ``␛``, a carriage return ``␍``; those without a picture, marks that turn the direction of writing
    and halves of surrogate pairs become ``�``. Safe to apply twice.
    """
    return _CONTROL.sub(_sign, text)


def one_line(text: str, limit: int = 160) -> str:
    """``text`` as one neutral line of at most ``limit`` characters."""
    line = neutral(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def html_text(text: object) -> str:
    """``text`` for a page: markup is shown, and nothing of it runs."""
    return escape(neutral(str(text)), quote=True)


def html_table(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """A plain table; every cell is escaped."""
    titles = "".join(f"<th>{html_text(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == _DELETE:
        return _DELETE_PICTURE
    return chr(_PICTURES + code) if code < 0x20 else "\ufffd"
