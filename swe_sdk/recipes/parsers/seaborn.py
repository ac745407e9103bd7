"""Results of seaborn's pytest runs.

Behaviour (not code) follows ``parse_log_seaborn`` of swebench 5.0.2.
"""

from __future__ import annotations

from swe_sdk.recipes.parsers.status import FAILED, PASSED

_PASSED_WITHIN = f" {PASSED} "


def parse_seaborn(log: str) -> dict[str, str]:
    """``FAILED id``, ``PASSED id`` and ``id PASSED [ 10%]`` lines to ``{id: status}``; the last line about a test wins.

    Nothing else is read: no skips, no errors. A line with `` PASSED `` inside counts only when that is its second word.
    """
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if PASSED in line or line.startswith(FAILED):
            _read(line, line.split(None, 2), found)
    return found


def _read(line: str, words: list[str], found: dict[str, str]) -> None:
    if len(words) < 2:
        return
    if line.startswith(FAILED):
        found[words[1]] = FAILED
    elif _PASSED_WITHIN in line:
        if words[1] == PASSED:
            found[words[0]] = PASSED
    elif line.startswith(PASSED):
        found[words[1]] = PASSED
