"""Text that somebody else wrote (agents, tests, data sets), made safe to show.

What such a text can do to its reader depends on where it is shown: markup runs in a browser, and control characters
move the cursor, recolour or rewrite what a terminal shows, or turn the order of letters around.
"""

from __future__ import annotations

import re
from html import escape
from importlib import import_module
from typing import Any, NamedTuple

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
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


class Shown:
    """An object that shows itself: as HTML in a notebook, as some lines of text where it is printed.

    Its ``repr`` is its own, and stays one line. What is shown is for the room above all others to say.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return one_line(super().__repr__(), _REPR)

    def _repr_html_(self) -> str:
        html: str = from_notebook("reprs.show").html_of(self)
        return html

    def __str__(self) -> str:
        text: str = from_notebook("reprs.show").text_of(self)
        return text


_REPR = 1000


class Frame(NamedTuple):
    """A page of a server, in a cell: an ``<iframe>``, and a link for a window of its own. ``height`` is in pixels."""

    url: str
    height: int

    def _repr_html_(self) -> str:
        url = html_text(self.url)
        frame = f'<iframe src="{url}" width="100%" height="{self.height}" style="border:0" title="dashboard"></iframe>'
        return f'{frame}<p><a href="{url}" target="_blank" rel="noopener">open it in a window</a></p>'


def from_notebook(module: str) -> Any:
    """A module of ``swe_sdk.notebook``. It lies above all who use it: its name is all that they know of it."""
    return import_module(f"swe_sdk.notebook.{module}")


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == _DELETE:
        return _DELETE_PICTURE
    return chr(_PICTURES + code) if code < 0x20 else "\ufffd"
