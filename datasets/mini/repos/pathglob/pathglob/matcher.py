"""Use patterns."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from .translate import translate


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern), re.DOTALL)


def matches(pattern: str, path: str) -> bool:
    """Whether the whole of ``path`` matches ``pattern``."""
    return _compiled(pattern).fullmatch(path) is not None


def filter_paths(pattern: str, paths: Iterable[str]) -> list[str]:
    return [path for path in paths if matches(pattern, path)]


class PatternSet:
    """Ordered rules; the last one that matches a path decides whether it is selected."""

    def __init__(self, rules: Sequence[tuple[bool, str]]) -> None:
        self.rules = list(rules)

    @classmethod
    def from_text(cls, text: str) -> PatternSet:
        """One pattern a line; ``!`` takes paths out again, ``#`` begins a comment line."""
        rules = []
        for line in text.splitlines():
            line = line.strip()
            if line and not line.startswith("#"):
                rules.append((not line.startswith("!"), line.lstrip("!")))
        return cls(rules)

    def selects(self, path: str) -> bool:
        for selected, pattern in reversed(self.rules):
            if matches(pattern, path):
                return selected
        return False
