"""A single bound, and the shorthands that stand for two of them."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Callable

from .version import Version

_OPERATORS: dict[str, Callable[[Version, Version], bool]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_TERM = re.compile(r"(?P<op>[<>]=?|=|\^|~)?\s*(?P<version>\S+)")


@dataclass(frozen=True)
class Comparator:
    op: str
    version: Version

    def allows(self, version: Version) -> bool:
        return _OPERATORS[self.op](version, self.version)

    def __str__(self) -> str:
        return f"{self.op}{self.version}"


def expand(term: str) -> list[Comparator]:
    """Turn one term of a range (``^1.2``, ``<3``) into plain comparators."""
    match = _TERM.fullmatch(term)
    if match is None:
        raise ValueError(f"not a range: {term!r}")
    op, lower = match["op"] or "=", Version.parse(match["version"])
    if op == "^":
        return _between(lower, _next_breaking(lower))
    if op == "~":
        return _between(lower, Version(lower.major, lower.minor + 1))
    return [Comparator(op, lower)]


def _next_breaking(version: Version) -> Version:
    """The first version that is not compatible with ``version``."""
    return Version(version.major + 1)


def _between(lower: Version, upper: Version) -> list[Comparator]:
    return [Comparator(">=", lower), Comparator("<", upper)]
