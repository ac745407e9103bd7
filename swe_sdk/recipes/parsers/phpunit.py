"""Results of PHPUnit with ``--testdox``.

:func:`parse_phpunit` follows the behaviour (not the code) of ``parse_log_phpunit`` of swebench 5.0.2, which knows the
heading of a class by the namespace after it: a class without one has its tests under ``None``, or under the class
before. :func:`parse_phpunit_testdox` is a strict parser of our own.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.text import plain_lines

_MARKS = {"✔": PASSED, "✘": FAILED, "↩": SKIPPED}
_STRICT_MARKS = {**_MARKS, "∅": SKIPPED, "☢": PASSED, "⚠": PASSED}
_STARTS = tuple(_MARKS)
_TEST = re.compile(r" ([✔✘↩∅☢⚠]) (.*)")
_TOOK = re.compile(r" \[\d+(?:\.\d+)? m?s\]$")
_HEADING = re.compile(r"(\w.*?)(?: \([\w\\]+\))?")


def parse_phpunit(log: str) -> dict[str, str]:
    """``✔ name``, ``✘ name`` and ``↩ name`` below ``Class (Name\\Space)`` to ``{Class > name: status}``."""
    found: dict[str, str] = {}
    if log.isascii():
        return found
    budget, suite = IdBudget(log), "None"
    for line in log.split("\n"):
        if line.endswith(")") and (end := _end_of_suite(line)) > 1:
            suite = line[:end]
        elif (text := line.lstrip()).startswith(_STARTS):
            name = budget.join(suite, " > ", text[1:].lstrip())
            if name is not None:
                found[name] = _MARKS[text[0]]
    return found


def _end_of_suite(line: str) -> int:
    """Where the last bracket of the line starts, with something in it and a word before it; else -1."""
    first = line[0]
    return line.rfind(" (", 0, len(line) - 2) if first.isalnum() or first == "_" else -1


def parse_phpunit_testdox(log: str) -> dict[str, str]:
    """Each test to its status, as ``{Class > name: status}``, with or without a namespace.

    The heading of a class is the line at the left margin between an empty one and its first test. Incomplete tests are
    SKIPPED; risky ones, and those with warnings, PASSED: they do not fail the run. Times are not part of a name.
    Failing tests stand in the summary once more: FAILED if only one of several reports says so.
    """
    found: dict[str, str] = {}
    budget, suite = IdBudget(log), ""
    above, last = "", ""
    for line in plain_lines(log):
        match = _TEST.fullmatch(line)
        heading = _HEADING.fullmatch(last) if match and not above.strip() else None
        above, last = last, line
        if match is None:
            continue
        suite = heading[1] if heading else suite
        name = budget.join(suite, " > ", _TOOK.sub("", match[2]))
        if suite and name is not None:
            found[name] = combine(found.get(name), _STRICT_MARKS[match[1]])
    return found
