"""Where the test output lies in a log, and when the results in it count.

Behaviour (not code) follows ``get_logs_eval`` of swebench 5.0.2 for logs with its two markers. Three older layouts,
which it refuses, have a reader of their own (:func:`lenient_section`). Nothing here does I/O or raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, NamedTuple

from swe_sdk.recipes.parsers.status import FAILING

START_MARKER: Final = ">>>>> Start Test Output"
END_MARKER: Final = ">>>>> End Test Output"

Reason = Literal[
    "",
    "patch_apply_failed",
    "reset_failed",
    "tests_errored",
    "tests_timed_out",
    "markers_missing",
    "end_marker_missing",
    "swebench_1x",
    "no_sign_of_a_run",
    "exit_code_contradicts_results",
]
"""Why a section was not found, or which older layout it was found in; empty for an official section."""

Parse = Callable[[str], dict[str, str]]

_BAD_CODES: tuple[tuple[str, Reason], ...] = (
    (">>>>> Patch Apply Failed", "patch_apply_failed"),
    (">>>>> Reset Failed", "reset_failed"),
    (">>>>> Tests Errored", "tests_errored"),
    (">>>>> Tests Timed Out", "tests_timed_out"),
)
_EXIT_CODE = re.compile(r">>>>> Test Exit Code:\s*(-?\d+)")
_RETURN_CODE = re.compile(r"Return Code: (-?\d+)")
_APPLIED = ">>>>> Applied Patch (pred)"
_COUNT = r"(?<!\d)(?=\d*?[1-9])\d++"  # a number other than 0, in time linear in its length
_SIGNS_OF_A_RUN = re.compile(
    "|".join(
        (
            r"Executed [1-9]\d* of \d",  # karma
            r"TOTAL: [1-9]\d* (?:SUCCESS|FAILED)",
            rf"{_COUNT} passing",  # mocha
            r"Tests:\s+[1-9]",  # jest
            r"Test Suites:\s+(?:\d+ \w+, )*[1-9]\d* total",
            r"^# tests [1-9]",  # TAP
            rf"{_COUNT} specs?, \d+ failure",  # jasmine
            r"': ok$",  # the rendering cases of openlayers
        )
    ),
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class TestSection:
    """The part of a log that a parser should read.

    ``text`` is that part; ``found`` whether results in it count; ``whole_log`` whether it is the log uncut;
    ``exit_code`` what the test command returned, where the log records it; ``reason`` why not found, or the layout.
    """

    __test__: ClassVar[bool] = False  # the name starts with "Test": keep pytest from collecting it

    text: str
    found: bool
    whole_log: bool = False
    exit_code: int | None = None
    reason: Reason = ""


class ParsedLog(NamedTuple):
    """The statuses in a whole log (empty where the section was not found), and the section they were read from."""

    statuses: dict[str, str]
    section: TestSection


def decode_log(data: bytes) -> str:
    """The bytes of a log as text, as the official harness sees it: UTF-8, with any line end as a newline."""
    return data.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")


def official_section(log: str) -> TestSection:
    """The text between the first start marker and the next marker of either kind.

    Not found where the log holds a bad code (patch not applied, reset failed, tests errored, tests timed out) or lacks
    a marker. A log whose end marker comes first gives all that follows the start marker.
    """
    exit_code = recorded_exit_code(log)
    bad = _bad_code(log)
    if bad:
        return TestSection("", False, exit_code=exit_code, reason=bad)
    if START_MARKER not in log or END_MARKER not in log:
        return TestSection("", False, exit_code=exit_code, reason="markers_missing")
    return TestSection(_between(log), True, exit_code=exit_code)


def lenient_section(log: str) -> TestSection:
    """As :func:`official_section`, and else the section of an older or a cut log.

    In order: a start marker alone (``end_marker_missing``: the run was cut, or the tail of the log is lost), the layout
    of swebench 1.x (``swebench_1x``: all after the last ``Applied Patch (pred)``; the exit code is the last
    ``Return Code`` there), and a log without any marker, which is taken whole (``markers_missing``, found).
    """
    section = official_section(log)
    if section.reason != "markers_missing":
        return section
    if START_MARKER in log:
        return replace(section, text=_between(log), found=True, reason="end_marker_missing")
    if _APPLIED in log:
        text = log.rpartition(_APPLIED)[2]
        return TestSection(text, True, exit_code=_last_return_code(text), reason="swebench_1x")
    return replace(section, text=log, found=True, whole_log=True)


def graded_statuses(log: str, parse: Parse) -> ParsedLog:
    """The status map by which the official harness would grade a whole log.

    An empty section makes it read the whole log (``whole_log``); an empty whole log counts only with a sign that tests
    ran; and results without a failure do not count beside a recorded exit code other than 0 (they may be forged).
    """
    section = official_section(log)
    statuses = parse(section.text) if section.found else {}
    if section.found and not statuses:
        section = replace(section, text=log, whole_log=True)
        statuses = parse(log)
        if not statuses and not suite_ran(log):
            return ParsedLog({}, replace(section, found=False, reason="no_sign_of_a_run"))
    if _contradicted(section.exit_code, statuses):
        return ParsedLog({}, replace(section, found=False, reason="exit_code_contradicts_results"))
    return ParsedLog(statuses, section)


def suite_ran(log: str) -> bool:
    """Whether a runner's own summary counts at least one test; most such runners are JavaScript ones."""
    return _SIGNS_OF_A_RUN.search(log) is not None


def recorded_exit_code(log: str) -> int | None:
    """The exit code that a 5.x evaluation script writes after the end marker, or None."""
    return _integer(_EXIT_CODE.search(log))


def _contradicted(exit_code: int | None, statuses: dict[str, str]) -> bool:
    return exit_code not in (None, 0) and bool(statuses) and FAILING.isdisjoint(statuses.values())


def _bad_code(log: str) -> Reason:
    return next((reason for code, reason in _BAD_CODES if code in log), "")


def _between(log: str) -> str:
    """From the first start marker to the next marker, or to the end of the log."""
    return log.partition(START_MARKER)[2].partition(START_MARKER)[0].partition(END_MARKER)[0]


def _last_return_code(text: str) -> int | None:
    matches = list(_RETURN_CODE.finditer(text))
    return _integer(matches[-1]) if matches else None


def _integer(match: re.Match[str] | None) -> int | None:
    """The number matched, or None; one too long for an int counts as none."""
    return int(match[1]) if match and len(match[1]) < 20 else None
