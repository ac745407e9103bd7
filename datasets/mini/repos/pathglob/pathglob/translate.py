"""From a glob pattern to a regular expression."""

from __future__ import annotations

import re


class PatternError(ValueError):
    """A pattern that means nothing."""


def translate(pattern: str) -> str:
    """Return a regular expression for ``re.fullmatch``."""
    if not pattern or pattern.startswith("/"):
        raise PatternError(f"a pattern is a relative path: {pattern!r}")
    parts = []
    segments = pattern.split("/")
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            parts.append(".*")
        elif "**" in segment:
            raise PatternError(f"'**' must stand alone between slashes: {pattern!r}")
        else:
            parts.append(_segment(segment))
        if not last:
            parts.append("/")
    return "".join(parts)


def _segment(segment: str) -> str:
    out = []
    position = 0
    while position < len(segment):
        char = segment[position]
        position += 1
        if char == "*":
            out.append("[^/]*")
        elif char == "?":
            out.append("[^/]")
        elif char == "[":
            text, position = _set(segment, position)
            out.append(text)
        else:
            out.append(re.escape(char))
    return "".join(out)


def _set(segment: str, start: int) -> tuple[str, int]:
    """Translate the set whose ``[`` is just before ``start``; return it and where it ends."""
    negated = segment[start : start + 1] == "!"
    begin = start + 1 if negated else start
    end = segment.find("]", begin + 1)  # a "]" in the first place belongs to the set
    if end < 0:
        raise PatternError(f"'[' without ']': {segment!r}")
    members = re.sub(r"([\\\[\]^&~|])", r"\\\1", segment[begin:end])
    return (f"[^/{members}]" if negated else f"[{members}]"), end + 1
