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
_TOOK = re.compile(r"\d+m?s")
_FAILURE = " FAIL  "


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
        status = _MARKS.get(line[1:2]) if line[:1] == " " and line[2:3] == " " else None
        name = _name(line[3:].rstrip(), status) if status else ""
        if status and _is_test(name):
            found[name] = combine(found.get(name), status)
        elif line.startswith(_FAILURE) and _is_test(name := line.removeprefix(_FAILURE).rstrip()):
            found[name] = FAILED
    return found


def _name(text: str, status: str) -> str:
    """Without the time, or what is said of a skipped test, at its end."""
    before, _, last = text.rpartition(" ")
    if _TOOK.fullmatch(last):
        return before.rstrip()
    at = text.rfind(" [") if status == SKIPPED and text.endswith("]") else -1
    return text[:at].rstrip() if at >= 0 else text


def _is_test(name: str) -> bool:
    return name.find(" > ") > 0 and not name[0].isspace()
