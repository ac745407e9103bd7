"""The one place where text becomes markup.

Boxes, agents, models and data sets write most of what a page shows: test names, paths, logs, patches, reasons. All of
it goes through :func:`el` or :func:`text`, which escape whatever is not :class:`Html` already, and nothing else in this
package makes :class:`Html`. Elements that run or load something cannot be made, nor can handlers of events, nor links
that leave this server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from swe_sdk.shown import html_text

Child = object
"""What may stand in an element: :class:`Html`, text, numbers, None (nothing), and iterables of these."""

_TAGS = frozenset(
    re.findall(
        r"\w+",
        "a abbr article aside b br button caption code dd details dialog div dl dt em fieldset footer form h1 h2 h3 h4 "
        "header hr i input kbd label legend li main mark meter nav ol optgroup option p pre progress s section select "
        "small span strong sub summary sup table tbody td tfoot th thead time tr u ul wbr "
        "svg g path rect line circle polyline polygon text title desc defs pattern clipPath",
    )
)
_VOID = frozenset({"br", "hr", "input", "wbr"})
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_LINKS = ("?", "#", "export/", "files/")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[@-Z\\^_])")


class Html(str):
    """Markup that is safe to show. Made by :func:`el`, :func:`text` and :func:`join` alone."""

    __slots__ = ()


NOTHING = Html("")


def text(value: object) -> Html:
    """Any value as text on a page: markup is shown, control characters become visible signs."""
    return value if isinstance(value, Html) else Html(html_text(value))


def join(*children: Child) -> Html:
    """Children one after the other."""
    return Html("".join(_parts(children)))


def el(tag: str, *children: Child, **attributes: object) -> Html:
    """``<tag attributes>children</tag>``; every child and every value that is not markup is escaped.

    ``cls`` is ``class``, ``for_`` is ``for``, other underscores are hyphens (``data_copy``). None and False leave an
    attribute out, True gives it no value. ``key`` names the element for the browser, which then moves it instead of
    drawing another. Raises ``ValueError`` for what no view has a reason to make: scripts, frames, handlers, links
    elsewhere.
    """
    if tag not in _TAGS:
        raise ValueError(f"a page has no <{tag}>")
    head = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{head}>")
    return Html(f"<{tag}{head}>{''.join(_parts(children))}</{tag}>")


def plain(value: str) -> str:
    """Text without the escape sequences of terminals (colours, titles, cursor moves); still to be escaped."""
    return _ANSI.sub("", value)


def cut(value: object, limit: int = 160) -> str:
    """At most ``limit`` characters of a text, on one line; still to be escaped."""
    line = " ".join(plain(str(value)[: 8 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None or child is False:
            continue
        if isinstance(child, str) or not isinstance(child, Iterable):
            yield text(child)
        else:
            yield from _parts(child)


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = {"cls": "class", "for_": "for", "key": "data-key"}.get(name) or name.strip("_").replace("_", "-")
    if not _NAME.fullmatch(name) or name.lower().startswith("on") or name in ("style", "src", "srcdoc", "formaction"):
        raise ValueError(f"an element has no attribute {name}")
    if name in ("href", "action") and not str(value).startswith(_LINKS):
        raise ValueError("a link of a page leads to a state, a place on it, or a file of a run")
    return f" {name}" if value is True else f' {name}="{html_text(value)}"'
