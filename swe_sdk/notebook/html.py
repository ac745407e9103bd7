"""The one place where text becomes markup: whatever stands in an element is escaped, whoever wrote it."""

from __future__ import annotations

from typing import Literal, final

from swe_sdk.shown import html_text

Tag = Literal[
    "code", "details", "div", "p", "pre", "span", "strong", "summary", "table", "tbody", "td", "th", "thead", "tr"
]  # fmt: skip


@final
class Html:
    """Markup. Only :func:`element` and :func:`joined` make it, and never of text that is not escaped."""

    __slots__ = ("markup",)

    def __init__(self, markup: str, *, made_by: object) -> None:
        if made_by is not _HERE:
            raise TypeError("make markup with element()")
        self.markup = markup

    @property
    def size_bytes(self) -> int:
        """Of the markup, in UTF-8."""
        return len(self.markup.encode("utf-8"))


_HERE = object()
EMPTY = Html("", made_by=_HERE)


def element(tag: Tag, *children: Html | str, **attributes: str | bool | None) -> Html:
    """An element. Texts and values of attributes are escaped; control characters in them become visible signs.

    ``class_="x"`` is the attribute ``class``; True gives an attribute its own name as value, None and False leave it
    out.
    """
    written = "".join(f' {name.strip("_")}="{_value(name, value)}"' for name, value in attributes.items() if value)
    inner = "".join(child.markup if isinstance(child, Html) else html_text(child) for child in children)
    return Html(f"<{tag}{written}>{inner}</{tag}>", made_by=_HERE)


def joined(*pieces: Html | str) -> Html:
    """Pieces after each other; texts are escaped."""
    texts = (piece.markup if isinstance(piece, Html) else html_text(piece) for piece in pieces)
    return Html("".join(texts), made_by=_HERE)


def stylesheet(css: str) -> Html:
    """A style sheet of this package. Raises ``ValueError`` for one that could end itself."""
    if "<" in css or "&" in css:
        raise ValueError("a style sheet holds no markup")
    return Html(f"<style>{css}</style>", made_by=_HERE)


def _value(name: str, value: str | bool) -> str:
    return name.strip("_") if value is True else html_text(value)
