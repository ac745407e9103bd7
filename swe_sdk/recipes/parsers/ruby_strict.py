"""Strict parsers for Ruby's test runners: minitest, test-unit and rspec, each with its verbose output."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.text import plain_lines

_MINITEST = re.compile(r"([A-Z]\S*#\S.*?) = (.*)")
_SECONDS = re.compile(r"\d+\.\d+ s")
_MINITEST_VERDICT = re.compile(r"(?<!\d)\d+\.\d+ s = ([.FES])$")
_REPORT = re.compile(r"\s+\d+\) (Failure|Error):")
_TESTUNIT = re.compile(r"\s\s+(?:test: )?(\S.*?):\t+(.*)")
_TESTUNIT_VERDICT = re.compile(r"([.FEPO])(?=: \(\d|$)")
_RSPEC = re.compile(r"(.+) - (passed|failed|pending)")
_LETTERS = {".": PASSED, "F": FAILED, "E": ERROR, "S": SKIPPED, "P": SKIPPED, "O": SKIPPED}
_RSPEC_WORDS = {"passed": PASSED, "failed": FAILED, "pending": SKIPPED}


def parse_minitest_verbose(log: str) -> dict[str, str]:
    """``Class#test = 0.00 s = .`` to ``{Class#test: status}``.

    A verdict may stand on a later line, behind what the test printed. A test with a report of its own is FAILED or
    ERROR whatever else is said of it, one without a verdict ERROR.
    """
    found: dict[str, str] = {}
    pending, report = "", ""
    for line in plain_lines(log):
        reported = line.partition(" [")[0].removesuffix(":")
        if report and reported in found:
            found[reported] = combine(found[reported], report)
        heading = _REPORT.fullmatch(line)
        report = "" if heading is None else ERROR if heading[1] == "Error" else FAILED
        test = _minitest_name(line)
        if test:
            _cut(pending, found)
            pending = test
        verdict = _MINITEST_VERDICT.search(line) if pending else None
        if verdict:
            found[pending] = combine(found.get(pending), _LETTERS[verdict[1]])
            pending = ""
    _cut(pending, found)
    return found


def parse_testunit_verbose(log: str) -> dict[str, str]:
    """``test: name:`` and its verdict to ``{name: status}``; pending tests and omissions are SKIPPED.

    Tests of one name in several classes: FAILED if one of them failed. One without a verdict is ERROR.
    """
    found: dict[str, str] = {}
    pending = ""
    for line in plain_lines(log):
        test = _TESTUNIT.fullmatch(line)
        if test:
            _cut(pending, found)
            pending = test[1]
        verdict = _TESTUNIT_VERDICT.match(test[2] if test else line) if pending else None
        if verdict:
            found[pending] = combine(found.get(pending), _LETTERS[verdict[1]])
            pending = ""
    _cut(pending, found)
    return found


def parse_rspec_status(log: str) -> dict[str, str]:
    """``full description - passed``, ``failed`` and ``pending`` at the end of a line to ``{description: status}``."""
    found: dict[str, str] = {}
    for line in plain_lines(log):
        match = _RSPEC.fullmatch(line)
        if match:
            found[match[1]] = combine(found.get(match[1]), _RSPEC_WORDS[match[2]])
    return found


def _minitest_name(line: str) -> str:
    """The test that the line names: all before its verdict, or before the first sign where that comes later."""
    parts = line.rsplit(" = ", 2)
    if len(parts) == 3 and "#" in parts[0] and _SECONDS.fullmatch(parts[1]):
        return parts[0]
    match = _MINITEST.fullmatch(line) if " = " in line else None
    return match[1] if match else ""


def _cut(pending: str, found: dict[str, str]) -> None:
    if pending:
        found[pending] = combine(found.get(pending), ERROR)
