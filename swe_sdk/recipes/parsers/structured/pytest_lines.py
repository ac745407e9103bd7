"""What pytest prints: results with ``-v``, and the summary with ``-rA``."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, XFAIL, combine

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_WORDS = {"PASSED": PASSED, "FAILED": FAILED, "ERROR": ERROR, "SKIPPED": SKIPPED, "XFAIL": XFAIL, "XPASS": PASSED}
_VERBOSE = re.compile(rf" ({'|'.join(_WORDS)})(?= \(|$)")
_PROGRESS = re.compile(r" \[ *\d+%\]$")


def parse_pytest_lines(text: str) -> dict[str, str]:
    """``{node id: status}``; the last report wins, but FAILED where only one of two is a failure.

    Ids keep their spaces; a ``" - "`` after the ``::`` ends one, as pytest puts the message there. XPASS is PASSED.
    """
    found: dict[str, str] = {}
    for line in _ANSI.sub("", text).replace("\r\n", "\n").split("\n"):
        report = (_summary(line) or _verbose(line)) if "::" in line else None
        if report is not None:
            name, word = report
            found[name] = combine(found.get(name), _WORDS[word])
    return found


def _summary(line: str) -> tuple[str, str] | None:
    """``PASSED path::test`` and ``FAILED path::test - message``."""
    word, _, rest = line.partition(" ")
    if word not in _WORDS or "::" not in rest:
        return None
    path, _, test = rest.partition("::")
    return f"{path}::{test.partition(' - ')[0].rstrip()}", word


def _verbose(line: str) -> tuple[str, str] | None:
    """``path::test PASSED [ 33%]``, perhaps with a reason in parentheses before the percentage."""
    line = _PROGRESS.sub("", line).rstrip()
    found = None if line.startswith(" ") else _VERBOSE.search(line)
    if found is None or "::" not in line[: found.start()] or (found.end() < len(line) and not line.endswith(")")):
        return None
    return line[: found.start()].rstrip(), found[1]
