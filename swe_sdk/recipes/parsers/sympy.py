"""Results of sympy's own test runner (``bin/test``).

Behaviour (not code) follows ``parse_log_sympy`` of swebench 5.0.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED

_MARK = ".py:"
_VERDICTS = {"ok": PASSED, "F": FAILED, "E": ERROR}


def parse_sympy(log: str) -> dict[str, str]:
    """``test_x ok|F|E`` lines and the headings of failures to ``{name or path.py:name: status}``.

    Headings (``____ sympy/a/tests/test_b.py:test_c ____``) come first and are FAILED whatever follows; then each line
    about a test overwrites the one before it.
    """
    found = dict.fromkeys(_headings(log), FAILED)
    for line in log.split("\n"):
        if "test_" in line:
            line = line.strip()
            status = _VERDICTS.get(line[line.rfind(" ") + 1 :])
            if status is not None and line.startswith("test_"):
                found[line.split(None, 1)[0]] = status
    return found


def _headings(log: str) -> Iterator[str]:
    """From each line of the form ``a b.py:c d``: all between its first and its last space.

    The mark must lie wholly between the two; whether underscores stand around is not looked at.
    """
    at = log.find(_MARK)
    while at >= 0:
        start = log.rfind("\n", 0, at) + 1
        end = log.find("\n", at)
        line = log[start : end if end >= 0 else len(log)]
        first, last = line.find(" "), line.rfind(" ")
        if first >= 0 and line.find(_MARK, first + 1, last) >= 0:
            yield line[first + 1 : last]
        at = log.find(_MARK, end) if end >= 0 else -1
