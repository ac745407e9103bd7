"""Results of Java builds: maven, ant's junit task as lombok uses it, and gradle with a line for each test.

Behaviour (not code) follows ``parse_log_maven``, ``parse_log_ant`` and ``parse_log_gradle_custom`` of swebench 5.0.2.
Maven does not print tests that pass: such tasks run it once for each test, and the shell's trace names the test.
"""

from __future__ import annotations

import re
from collections import deque

from swe_sdk.recipes.parsers.status import FAILED, PASSED

_OPTION = "-Dtest="
_BUILDS = {"BUILD SUCCESS": PASSED, "BUILD FAILURE": FAILED}
_ANT = re.compile(r"\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(.*)")
_WORDS = {"PASSED": PASSED, "FAILED": FAILED}
_WORD_LENGTH = len("PASSED")


def parse_maven(log: str) -> dict[str, str]:
    """``-Dtest=name`` and the ``BUILD SUCCESS`` or ``BUILD FAILURE`` of its turn to ``{name: status}``."""
    found: dict[str, str] = {}
    tests: deque[str] = deque()
    early: deque[str] = deque()
    for line in log.split("\n"):
        if _OPTION in line and (test := _last_test(line.strip())):
            tests.append(test)
        if "BUILD " in line:
            status = _BUILDS.get(line.rstrip()[-len("BUILD SUCCESS") :])
            if status and tests:
                found[tests.popleft()] = status
            elif status:
                early.append(status)
    found.update(zip(tests, early, strict=False))
    return found


def parse_ant(log: str) -> dict[str, str]:
    """``[junit] [PASS] name``, ``[FAIL]`` and ``[ERR]`` to ``{name: status}``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if "[junit]" in line and (match := _ANT.fullmatch(line.strip())):
            found[match[2]] = PASSED if match[1] == "PASS" else FAILED
    return found


def parse_gradle_custom(log: str) -> dict[str, str]:
    """``class > test PASSED`` to ``{class > test: status}``; the status may stand alone on a later line."""
    found: dict[str, str] = {}
    pending = ""
    for line in log.split("\n"):
        line = line.strip()
        status = _WORDS.get(line[-_WORD_LENGTH:])
        end = len(line) - _WORD_LENGTH - 1
        if status and end > 1 and line[0] != ">" and line[end].isspace():
            found[line[:end]], pending = status, ""
        elif ">" in line:
            words = line.split()
            if len(words) == 3 and words[1] == ">" and line[0] != ">":
                pending = line
        elif status and pending and end == -1:
            found[pending], pending = status, ""
    return found


def _last_test(line: str) -> str:
    """What follows the last ``-Dtest=`` that has something after it."""
    at = line.rfind(_OPTION)
    while at >= 0:
        words = line[at + len(_OPTION) : at + len(_OPTION) + 1].split()
        if words:
            return line[at + len(_OPTION) :].split(None, 1)[0]
        at = line.rfind(_OPTION, 0, at)
    return ""
