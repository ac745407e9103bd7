"""Results of GoogleTest.

:func:`parse_googletest` follows the behaviour (not the code) of ``parse_log_googletest`` of swebench 5.0.2, which does
not see skipped tests and keeps the parameter of a failing one in its name. :func:`parse_gtest` is a strict parser of
our own.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.text import plain_lines

_TAG = re.compile(r"\[\s*(OK|FAILED)\s*\]\s")
_DURATION = re.compile(r"\s\(")
_PREFIX = re.compile(r"(\d+: )?(.*)")
_RUN = "[ RUN      ] "
_TAGS = (("[       OK ] ", PASSED), ("[  FAILED  ] ", FAILED), ("[  SKIPPED ] ", SKIPPED))
_REST = re.compile(r"(?:, where .*)? \(\d+ ms\)")
_LISTED = re.compile(r"\[  FAILED  \] ([^\s,]+)(?:, where .*)?")


def parse_googletest(log: str) -> dict[str, str]:
    """``[       OK ] name (0 ms)`` and ``[  FAILED  ] name (0 ms)``, anywhere in a line, to ``{name: status}``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if "]" in line and ("OK" in line or "FAILED" in line):
            line = line.strip()
            end = _last_duration(line) if line.endswith(")") else -1
            tags = list(_TAG.finditer(line, 0, end)) if end >= 0 else []
            if tags:
                found[line[tags[-1].end() : end]] = PASSED if tags[-1][1] == "OK" else FAILED
    return found


def _last_duration(line: str) -> int:
    """Where the last white space before an opening bracket is, or -1."""
    at = line.rfind("(")
    while at > 0 and not line[at - 1].isspace():
        at = line.rfind("(", 0, at)
    return at - 1


def parse_gtest(log: str) -> dict[str, str]:
    """Each test to its status, of one program or of many under ``ctest -V``.

    * A result counts if the test it names is the one that runs, and may stand behind what the test printed.
    * A test in the list of failures is FAILED whatever else is said of it. Tests of one name: FAILED if one failed.
    * A test that runs and has no result (a crash, the run was cut off) is ERROR. Disabled ones are left out.
    """
    found: dict[str, str] = {}
    running: dict[str, str] = {}
    for line in plain_lines(log):
        if "[ " not in line:
            continue
        match = _PREFIX.fullmatch(line)
        program, text = (match[1] or "", match[2]) if match else ("", line)
        if text.startswith(_RUN):
            name = text.removeprefix(_RUN).strip()
            if running.get(program) != name:
                _cut(running.get(program), found)
            running[program] = name
        elif status := _result(text, running.get(program)):
            name = running.pop(program)
            found[name] = combine(found.get(name), status)
        elif (listed := _LISTED.fullmatch(text)) and listed[1] in found:
            found[listed[1]] = FAILED
    for name in running.values():
        _cut(name, found)
    return found


def _result(text: str, running: str | None) -> str | None:
    """The status that the line's end gives to the test that runs, or None."""
    if running is None or not text.endswith(" ms)"):
        return None
    for tag, status in _TAGS:
        at = text.rfind(tag + running)
        if at >= 0 and _REST.fullmatch(text, at + len(tag) + len(running)):
            return status
    return None


def _cut(name: str | None, found: dict[str, str]) -> None:
    if name is not None:
        found[name] = combine(found.get(name), ERROR)
