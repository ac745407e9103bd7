"""Numbers, times and words as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite

from swe_sdk.dashboard.escape import Html, cut, el
from swe_sdk.notebook import palette
from swe_sdk.notebook.palette import Style, style_of
from swe_sdk.store.standing import CUT_OFF

DASH = "\u2013"

TABLES: Mapping[str, Mapping[str, Style]] = {
    "status": palette.STATUS,
    "mask": palette.MASK_KIND,
    "mask-group": palette.MASK_GROUP,
    "budget": palette.BUDGET,
    "stage": palette.STAGE,
    "timing": palette.TIMING,
    "snapshot": palette.SNAPSHOT,
    "checkpoint": palette.CHECKPOINT,
    "health": palette.HEALTH,
    "test": palette.TEST,
}
"""The tables of the palette that have colours on pages, by the name that their tones have."""


def tone(table: str, word: str | None) -> str:
    """The class that gives an element the colours of a word: ``--tone`` for areas, ``--tone-text`` for letters."""
    return f"tone-{table}-{word}" if word in TABLES[table] else "tone-unknown"


def pill(table: str, word: str | None, *, label: str | None = None, title: str | None = None) -> Html:
    """A word with its sign, in its colour. ``table`` is one of :data:`TABLES`."""
    if not word:
        return el("span", DASH, cls="dim")
    style = style_of(TABLES[table], word)
    sign = el("i", style.glyph, aria_hidden="true")
    return el("span", sign, cut(label or style.label, 40), cls=f"pill {tone(table, word)}", title=title)


def status_pill(word: str) -> Html:
    """Of a rollout: its status, or that it is cut off."""
    return pill("status", colour_of(word), label=word)


def colour_of(word: str) -> str:
    """The status whose colour that of a rollout has."""
    return "stopped" if word == CUT_OFF else word


def seconds(value: float | None) -> str:
    """``4.2 s``, ``3 m 05 s``, ``2 h 10 m``, ``3 d 4 h``; a dash for None, and for what is no number of seconds."""
    if value is None or not isfinite(value):
        return DASH
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def size(value: float | None) -> str:
    """``12 B``, ``3.4 KiB``, ``1.2 GiB``; a dash for None."""
    if value is None or not isfinite(value):
        return DASH
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def in_bytes(value: float | None) -> str:
    """`` (3.4 KiB)``; nothing where it is not known, or nothing."""
    return f" ({size(value)})" if value else ""


def count(value: float | None) -> str:
    """``12,345``; a dash for None."""
    return DASH if value is None or not isfinite(value) else f"{value:,.0f}"


def many(number: int, word: str, plural: str = "") -> str:
    """``1 box``, ``1,234 boxes``."""
    return f"{number:,} {word if number == 1 else plural or f'{word}s'}"


def percent(part: float, whole: float) -> str:
    """``12.3 %``; a dash for a part of nothing."""
    return f"{100 * part / whole:.1f} %" if whole and isfinite(part) and isfinite(whole) else DASH


def reward(value: float | None) -> str:
    """A mean of rewards."""
    return DASH if value is None else f"{value:.3f}"


def when(value: float | None) -> Html | str:
    """A moment, in the viewer's own time; a dash for None."""
    return _time(value, "when") if value is not None else DASH


def ago(value: float | None) -> Html | str:
    """``3 m ago``, or ``in 3 m``. It grows in the browser; a dash for None."""
    return _time(value, "ago") if value is not None else DASH


def since(value: float | None) -> Html | str:
    """``3 m 20 s`` and growing, in the browser; a dash for None."""
    return _time(value, "since") if value is not None else DASH


def _time(value: float, how: str) -> Html:
    """The text is that of UTC until the browser has put its own there."""
    try:
        moment = datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):  # a time that no calendar has
        return el("span", f"{value:g}")
    return el("time", f"{moment:%Y-%m-%d %H:%M:%S} UTC", data_t=f"{value:.3f}", data_how=how)
