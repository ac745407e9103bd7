"""Test ids made of several names, within bounds.

A suite's name stands in the id of each of its tests, so a log of one long suite name and many short tests asks for ids
whose total grows with the square of the log. A test run must not be able to exhaust its grader's memory.
"""

from __future__ import annotations

_LEAST = 1 << 25
_PER_CHARACTER = 8
_PER_ID = 64


class IdBudget:
    """What all composed ids of one log may take together: 32 Mi characters, and eight times those of the log.

    Each id counts for 64 characters more than it has.
    """

    def __init__(self, log: str) -> None:
        self._left = _LEAST + _PER_CHARACTER * len(log)

    @property
    def spent(self) -> bool:
        """Whether there can be no further id."""
        return self._left < 0

    def join(self, prefix: str, separator: str, name: str) -> str | None:
        """The three as one id, or None once the budget is spent: then the test counts as not reported."""
        self._left -= len(prefix) + len(separator) + len(name) + _PER_ID
        return None if self._left < 0 else prefix + separator + name
