"""Results of mocha's reporters, as several repositories use them.

The parsers of highlight.js, lighthouse, marked, prism and eslint follow the behaviour (not the code) of
``parse_log_highlightjs``, ``parse_log_lighthouse``, ``parse_log_marked``, ``parse_log_prismjs`` and
``parse_log_eslint`` of swebench 5.0.2. ``mocha_spec`` and ``mocha_failures`` in :mod:`mocha_strict` are strict ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.status import FAILED, PASSED
from swe_sdk.recipes.parsers.suites import Suites
from swe_sdk.recipes.parsers.text import line_ends, one_line

_PRISM_COMMAND = "./node_modules/.bin/mocha tests/run.js --reporter json"
_LIGHTHOUSE_COMMAND = "./node_modules/.bin/mocha --reporter json"
_TITLE = line_ends('"fullTitle":', r'\s"', r'(.*",)\n')
_SUMMARY = re.compile(r"\n[ \t]*\d+ passing")
_DURATION = re.compile(r"\(\d+ms\)")
_NUMBER = re.compile(r"\d+\)")
_NUMBERED = re.compile(r"\d+\)\s(.*)")
_MIN_FAILURE = re.compile(r"\s{2}\d+\)")
_SPACE = re.compile(r"\s")
_FILES_RUN = re.compile(r"running\s\d+\stest\sfiles")
_PASSING = re.compile(r"(?<!\d)\d++\spassing")
_RESULTS = tuple(
    (re.compile(mark + r"\s(.*)" + end), status)
    for mark, status in (("✔", PASSED), (r"\d+\)", FAILED))
    for end in (r"\s\(\d+m+s\)", "")
)


def parse_highlightjs(log: str) -> dict[str, str]:
    """``✓ name (5ms)`` and ``1) name`` up to the first ``n passing``, to ``{suite.name: status}``.

    Only the last suite is in an id; any other line with two spaces before it counts as one.
    """
    found: dict[str, str] = {}
    suites = Suites(IdBudget(log), ".")
    end = _SUMMARY.search(log)
    for line in log[: end.start() if end else len(log)].split("\n"):
        text = line.strip()
        passed = text.startswith(("✓", "✔"))
        number = None if passed else _NUMBER.match(text)
        if passed or number:
            test = _DURATION.sub("", text[number.end() if number else 1 :]).strip()
            name = suites.name(test)
            if name is not None:
                found[name] = PASSED if passed else FAILED
        elif line.startswith("  "):
            suites.clear()
            suites.enter(line)
    return found


def parse_marked(log: str) -> dict[str, str]:
    """``1) name`` at the left margin to ``{name: FAILED}``; the reporter names failures alone."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if line[:1].isdecimal() and (match := _NUMBERED.match(line)):
            found[match[1].strip()] = FAILED
    return found


def parse_prismjs(log: str) -> dict[str, str]:
    """The JSON report after each mocha command of the shell's trace to ``{full title: status}``.

    A report that is not whole counts as none; the official parser stops there with an error.
    """
    found: dict[str, str] = {}
    for run in log.split(_PRISM_COMMAND)[1:]:
        begin, end = run.find("{") + 1, run.rfind("}")
        found.update(_report(f"{{{run[begin : end if end >= begin else len(run)]}}}"))
    return found


def parse_eslint(log: str) -> dict[str, str]:
    """From ``1)`` to the white space before the next ``...Error``: ``{name: FAILED}``, white space made one.

    The reporter names failures alone. The official parser's time grows with the square of the log or worse.
    """
    return dict.fromkeys(map(one_line, _min_failures(log)), FAILED)


def parse_lighthouse_mocha(log: str) -> dict[str, str]:
    """Versions 9.5, 10.0 and 10.2: ``✔ name (5ms)`` and ``1) name`` to ``{suites - name: status}``."""
    found: dict[str, str] = {}
    budget = IdBudget(log)
    for run in _FILES_RUN.split(log)[1:]:
        end = _PASSING.search(run)
        suites = Suites(budget, " - ")
        for line in run[: end.start() if end else len(run)].strip().split("\n"):
            match, status = _result(line.strip())
            if match is None:
                suites.enter(line)
            elif (name := suites.name(match)) is not None:
                found[name] = status
    return found


def parse_lighthouse_json(log: str) -> dict[str, str]:
    """Versions before 3: the titles in the lists ``passes`` and ``failures`` of mocha's JSON report."""
    found: dict[str, str] = {}
    for run in log.split(_LIGHTHOUSE_COMMAND)[1:]:
        passes = run.rpartition('"passes": [')[2]
        found.update(dict.fromkeys(_titles(_up_to(passes, "]")), PASSED))
        failures = run.rpartition('"failures": [')[2]
        found.update(dict.fromkeys(_titles(_up_to(failures, "],")), FAILED))
    return found


def _report(text: str) -> dict[str, str]:
    try:
        report: Any = json.loads(text)
        lists = ((report["failures"], FAILED), (report["passes"], PASSED))
        titles = [(test["fullTitle"], status) for tests, status in lists for test in tests]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {title: status for title, status in titles if isinstance(title, str)}


def _min_failures(log: str) -> Iterator[str]:
    """Between each number and the ``Error`` after it: what is before that error's line, or the first word of it."""
    at = 0
    while match := _MIN_FAILURE.search(log, at):
        begin = match.end()
        space = _SPACE.search(log, begin)
        error = log.find("Error", space.start()) if space else -1
        if space is None or error < 0:
            return
        line = log.rfind("\n", 0, error)
        yield log[begin : space.start()] if line < space.start() else log[begin:line]
        line_end = log.find("\n", error)
        at = log.rfind("Error", error, line_end if line_end >= 0 else len(log)) + len("Error")


def _result(text: str) -> tuple[str | None, str]:
    if text[:1] == "✔" or text[:1].isdecimal():
        for pattern, status in _RESULTS:
            if match := pattern.match(text):
                return match[1], status
    return None, ""


def _titles(text: str) -> Iterable[str]:
    return [end[:-2] for end in _TITLE.findall(text) if end]


def _up_to(text: str, end: str) -> str:
    """All before the last ``end``, or the whole."""
    before, found, _ = text.rpartition(end)
    return before if found else text
