"""Results of jest as wp-calypso runs it.

Behaviour (not code) follows ``parse_log_calypso`` of swebench 5.0.2, with one difference: on a result without a space
before or after its mark, or with a duration that does not end the line, the official parser stops with an
AttributeError, which makes the log ungradable; this one passes over that line.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import FAILED, PASSED
from swe_sdk.recipes.parsers.suites import Suites

_COMMAND = " ./node_modules/.bin/jest "
_STOPS = ("Test Suites", "  ● ")
_MARKS = {"✓": PASSED, "✕": FAILED}
_STARTS = tuple(_MARKS)
_HAS_DURATION = re.compile(r"\(\d+ms\)")
_TIMED = re.compile(r"(.*)\(\d+ms\)")


def parse_calypso(log: str) -> dict[str, str]:
    """After each jest command of the shell's trace: ``✓ name (5ms)`` and ``✕ name`` to ``{suites - name: status}``."""
    found: dict[str, str] = {}
    suites = Suites(IdBudget(log), " - ")
    for run in log.split(_COMMAND)[1:]:
        for line in run.split("\n"):
            if line.startswith(_STOPS):
                break
            text = line.lstrip()
            if not text.startswith(_STARTS):
                suites.enter(line)
            elif len(text) < len(line) and text[1:2].isspace():
                _record(text, suites, found)
    return found


def _record(text: str, suites: Suites, found: dict[str, str]) -> None:
    test = text[2:]
    if _HAS_DURATION.search(text):
        timed = _TIMED.fullmatch(test)
        if timed is None:
            return
        test = timed[1]
    name = suites.name(test) if suites else f"- {test}"
    if name is not None:
        found[name.strip()] = _MARKS[text[0]]
