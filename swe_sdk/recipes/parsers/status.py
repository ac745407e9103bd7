"""The statuses a test can have, and how two reports about one test combine."""

from __future__ import annotations

from typing import Final

FAILED: Final = "FAILED"
PASSED: Final = "PASSED"
SKIPPED: Final = "SKIPPED"
ERROR: Final = "ERROR"
XFAIL: Final = "XFAIL"

STATUSES: Final = (FAILED, PASSED, SKIPPED, ERROR, XFAIL)
"""Every status of the official harness, in its order."""

FAILING: Final = frozenset((FAILED, ERROR))
"""The statuses that say that a test broke."""


def combine(earlier: str | None, later: str) -> str:
    """The status of a test reported twice: the later one, but FAILED where only one of the two is a failure.

    The strict parsers of this package use it; the official ones overwrite.
    """
    if earlier is None or (earlier in FAILING) == (later in FAILING):
        return later
    return FAILED
