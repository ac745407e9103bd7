"""Test ids made of several names, within bounds.

A suite's name stands in the id of each of its tests, so a log of one long suite name and many short tests asks for ids
whose total grows with the square of the log. A test run must not be able to exhaust its grader's memory.
"""

from __future__ import annotations

from collections.abc import Iterable

_LEAST = 1 << 25
_PER_CHARACTER = 8


class IdBudget:
    """The characters that all composed ids of one log may have together: 32 Mi and eight times its own."""

    def __init__(self, log: str) -> None:
        self._left = _LEAST + _PER_CHARACTER * len(log)

    @property
    def spent(self) -> bool:
        """Whether there can be no further id."""
        return self._left < 0

    def join(self, separator: str, names: Iterable[str]) -> str | None:
        """The names as one id, or None once the budget is spent: then the test counts as not reported."""
        names = list(names)
        self._left -= sum(map(len, names)) + len(separator) * len(names)
        return separator.join(names) if self._left >= 0 else None
