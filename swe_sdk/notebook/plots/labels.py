"""Words of a picture: short, and nothing that a font or the mathematics of matplotlib could stumble over."""

from __future__ import annotations

from functools import cache

from swe_sdk.shown import one_line

_LABEL = 30


def short(name: str, limit: int = _LABEL) -> str:
    """A name of at most ``limit`` characters. The middle is left out: ids differ at their ends."""
    line = one_line(name, 10_000)
    if len(line) <= limit:
        return line
    head = (limit - 1) // 2
    return f"{line[:head]}…{line[-(limit - 1 - head) :]}"


def drawable(text: str) -> str:
    """``text`` with ``□`` for what the font cannot show: matplotlib would warn of each."""
    known = _characters()
    return "".join(sign if sign == "\n" or ord(sign) in known else "□" for sign in text)


def percent(part: float, whole: float) -> str:
    """``62 %``; nothing of nothing is ``-``. Only all is 100 %, and only none is 0 %."""
    if not whole:
        return "-"
    share = 100 * part / whole
    if 0 < share < 0.5:
        return "< 1 %"
    return "> 99 %" if 99.5 <= share < 100 else f"{share:.0f} %"


@cache
def _characters() -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(font_manager.findfont(font_manager.FontProperties())).get_charmap())
