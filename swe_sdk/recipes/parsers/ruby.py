"""Results of Ruby's test runners: minitest, cucumber, test-unit and rspec.

The parsers with official names follow the behaviour (not the code) of ``parse_log_minitest``, ``parse_log_cucumber``,
``parse_log_ruby_unit`` and ``parse_log_rspec_transformed_json`` of swebench 5.0.2. The first knows jekyll's reporter
alone; the last overlooks pending tests.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED

_CUCUMBER = re.compile(r" \.+(\.|F)")
_UNIT = re.compile(r":\s+(\.|[EFO]\b)")
_UNIT_WORDS = {".": PASSED, "E": FAILED, "F": FAILED, "O": SKIPPED}
_UNIT_PREFIX = "test: "
_RSPEC_WORDS = ((" - passed", PASSED), (" - failed", FAILED))


def parse_minitest(log: str) -> dict[str, str]:
    """``name. ... = ... .`` to ``{name: status}``: the last ``.``, ``F`` or ``E`` of the line is the verdict."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if "=" in line and ". " in line:
            line = line.strip()
            verdict = max(map(line.rfind, ".FE"))
            equals = line.rfind("=", 0, max(verdict, 0))
            end = line.rfind(". ", 1, max(equals, 0))
            if end > 0:
                found[line[:end]] = PASSED if line[verdict] == "." else FAILED
    return found


def parse_cucumber(log: str) -> dict[str, str]:
    """``name ....F`` to ``{name: status}``, by the last run of dots in the line."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if " ." in line:
            line = line.strip()
            at = line.rfind(" .")
            while at >= 0 and not (match := _CUCUMBER.match(line, at)):
                at = line.rfind(" .", 0, at)
            if at >= 0 and match:
                found[line[:at]] = PASSED if match[1] == "." else FAILED
    return found


def parse_ruby_unit(log: str) -> dict[str, str]:
    """``test: name: .`` to ``{name: status}``: the last verdict after a colon counts; ``test: `` may be missing."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if ":" in line:
            line = line.strip()
            verdicts = list(_UNIT.finditer(line, 1))
            if verdicts:
                verdict = verdicts[-1]
                prefixed = line.startswith(_UNIT_PREFIX) and verdict.start() > len(_UNIT_PREFIX)
                name = line[len(_UNIT_PREFIX) if prefixed else 0 : verdict.start()]
                found[name] = _UNIT_WORDS[verdict[1]]
    return found


def parse_rspec_transformed_json(log: str) -> dict[str, str]:
    """``name - passed`` and ``name - failed`` to ``{name: status}``; more may follow."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if " - " in line:
            line = line.strip()
            end, status = max((line.rfind(words), status) for words, status in _RSPEC_WORDS)
            if end > 0:
                found[line[:end]] = status
    return found
