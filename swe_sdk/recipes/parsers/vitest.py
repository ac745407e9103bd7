"""Results of vitest with ``--reporter=verbose``.

:func:`parse_vitest` follows the behaviour (not the code) of ``parse_log_vitest`` of swebench 5.0.2, which takes any
line that begins with a mark for a result: lines of whole files and printed lines too.
:func:`parse_vitest_verbose` is a strict parser of our own.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.text import plain_lines

_TIMES = "\u00d7"  # the multiplication sign
_MARKS = {"✓": PASSED, _TIMES: FAILED, "↓": SKIPPED}
_STARTS = tuple(_MARKS)
_ENDING = re.compile(r"\s(?:\d+\s*m?s?|\[skipped\])$")
_RESULT = re.compile(rf" ([✓{_TIMES}↓]) (\S.*? > .*?\S)(?: +\d+m?s| \[.*\])?")
_FAILURE = re.compile(r" FAIL  (\S.*? > .*\S)")


def parse_vitest(log: str) -> dict[str, str]:
    """``✓ name 5ms``, ``× name`` and ``↓ name [skipped]`` to ``{name: status}``."""
    found: dict[str, str] = {}
    if log.isascii():
        return found
    for line in log.split("\n"):
        line = line.strip()
        if line.startswith(_STARTS) and line[1:2].isspace():
            ending = _ENDING.search(line, 3)
            found[line[2 : ending.start() if ending else len(line)]] = _MARKS[line[0]]
    return found


def parse_vitest_verbose(log: str) -> dict[str, str]:
    """Each test to its status; the id is its file and its names, joined by `` > `` as vitest prints them.

    Results are lines with one space before their mark, and a file and a name at least. A test under ``FAIL`` in the
    report at the end is FAILED whatever else is said of it. vitest 1 does not print the tests that it skips.
    """
    found: dict[str, str] = {}
    for line in plain_lines(log):
        if match := _RESULT.fullmatch(line):
            found[match[2]] = combine(found.get(match[2]), _MARKS[match[1]])
        elif match := _FAILURE.fullmatch(line):
            found[match[1]] = FAILED
    return found
