"""Results in the Test Anything Protocol: tape, mocha's ``tap`` reporter, bats, prove.

:func:`parse_tap` follows the behaviour (not the code) of ``parse_log_tap`` of swebench 5.0.2: a skipped point passed,
under a name that ends with the directive, and an indented or printed line is a point too. :func:`parse_tap_strict` is
a strict parser of our own.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, XFAIL, combine
from swe_sdk.recipes.parsers.text import plain_lines

_OFFICIAL = re.compile(r"(ok|not ok) \d+ (.+)")
_STARTS = ("ok ", "not ok ")
_POINT = re.compile(r"(not )?ok (\d{1,9})(?: -)? (.*)")
_DIRECTIVE = re.compile(r"(?:^|(?<=\s))# ?(SKIP|TODO)", re.IGNORECASE)


def parse_tap(log: str) -> dict[str, str]:
    """``ok 1 name`` and ``not ok 2 name`` to ``{name: status}``; the name is all that follows the number."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        line = line.strip()
        if line.startswith(_STARTS) and (match := _OFFICIAL.fullmatch(line)):
            found[match[2]] = PASSED if match[1] == "ok" else FAILED
    return found


def parse_tap_strict(log: str) -> dict[str, str]:
    """Each point at the left margin to its status; its name has no leading dash and no directive.

    * ``# SKIP`` is SKIPPED; ``# TODO`` is XFAIL if it failed, else SKIPPED: it was not expected to work yet.
    * A passing point counts only if its number follows the one before, or is 1 (another program began): tests print
      lines that look like points. A failing one always counts.
    * Points of one name: FAILED if only one of them failed. Nothing counts after ``Bail out!``.
    * tape does not print tests that it skips.
    """
    found: dict[str, str] = {}
    expected = 1
    for line in plain_lines(log):
        if line.startswith("Bail out!"):
            break
        match = _POINT.fullmatch(line) if line.startswith(_STARTS) else None
        if match is None:
            continue
        directive = _DIRECTIVE.search(match[3])
        name = match[3][: directive.start() if directive else None].strip()
        status = _status(match[1] is None, directive[1].upper() if directive else "")
        in_order = int(match[2]) in (1, expected)
        if in_order or status == FAILED:
            found[name] = combine(found.get(name), status)
        if in_order:
            expected = int(match[2]) + 1
    return found


def _status(passed: bool, directive: str) -> str:
    if directive == "TODO":
        return SKIPPED if passed else XFAIL
    if not passed:
        return FAILED
    return SKIPPED if directive == "SKIP" else PASSED
