"""Seconds, bytes and moments in few characters, and texts cut short."""

from __future__ import annotations

from datetime import UTC, datetime

_STEPS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def seconds(value: float | None) -> str:
    """``2.5 ms``, ``40 ms``, ``0.4 s``, ``12 s``, ``3m 20s``, ``2h 05m``; nothing for None."""
    if value is None:
        return ""
    if value < 0.0995:
        return f"{value * 1000:.{int(value < 0.00995)}f} ms" if value else "0 s"
    if value < 59.5:
        return f"{value:.1f} s" if value < 9.95 else f"{value:.0f} s"
    whole = round(value)
    large, unit, part, small = next(step for step in _STEPS if whole >= step[0])
    return f"{whole // large}{unit} {whole % large // part:02}{small}"


def size(count: float) -> str:
    """``512 B``, ``1.5 KiB``, ``20 MiB``."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while count >= 1024 and unit != "TiB":
        count, unit = count / 1024, next(units)
    return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"


def moment(unix_s: float | None) -> str:
    """``2025-03-01 12:00:05 UTC``; nothing for None."""
    return "" if unix_s is None else f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def many(count: int, what: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def clipped(text: str, limit: int) -> str:
    """At most ``limit`` characters."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def middle_cut(lines: list[str], limit: int) -> tuple[list[str], int, list[str]]:
    """The first third and the last two of at most ``limit`` lines, and how many are left out between them."""
    if len(lines) <= limit:
        return lines, 0, []
    head = limit // 3
    tail = limit - head
    return lines[:head], len(lines) - head - tail, lines[-tail:]
