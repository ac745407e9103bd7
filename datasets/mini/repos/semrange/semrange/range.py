"""Ranges: alternatives of conjunctions of comparators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from .comparator import Comparator, expand
from .version import Version

_INTERVAL = re.compile(r"(?P<open>[\[(])\s*(?P<low>[^,\s]*)\s*,\s*(?P<high>[^,\s]*)\s*(?P<close>[\])])")
_GAP = re.compile(r"([<>=^~])\s+")


class RangeError(ValueError):
    """A text that is not a range."""


class Range:
    """A set of versions; make one with ``Range.parse``."""

    def __init__(self, alternatives: Sequence[Sequence[Comparator]]) -> None:
        self.alternatives = [list(alternative) for alternative in alternatives]

    @classmethod
    def parse(cls, text: str) -> Range:
        try:
            return cls([_conjunction(part.strip()) for part in text.split("||")])
        except ValueError as error:
            raise RangeError(str(error)) from error

    def allows(self, version: str | Version) -> bool:
        parsed = Version.parse(version) if isinstance(version, str) else version
        return any(all(item.allows(parsed) for item in alternative) for alternative in self.alternatives)

    def __str__(self) -> str:
        return " || ".join(" ".join(map(str, alternative)) or "*" for alternative in self.alternatives)


def max_satisfying(versions: Iterable[str], text: str) -> str | None:
    """The highest of ``versions`` that the range allows, as it was written; None if there is none."""
    wanted = Range.parse(text)
    return max(filter(wanted.allows, versions), key=Version.parse, default=None)


def _conjunction(text: str) -> list[Comparator]:
    interval = _INTERVAL.fullmatch(text)
    if interval is not None:
        return _interval(interval)
    if text in ("", "*"):
        return []
    return [comparator for term in _GAP.sub(r"\1", text).split() for comparator in expand(term)]


def _interval(match: re.Match[str]) -> list[Comparator]:
    comparators = []
    if match["low"]:
        comparators.append(Comparator(">=" if match["open"] == "[" else ">", Version.parse(match["low"])))
    if match["high"]:
        comparators.append(Comparator("<=" if match["close"] == "]" else "<", Version.parse(match["high"])))
    return comparators
