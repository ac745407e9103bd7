"""Results of ctest, with or without ``-V``. A strict parser of our own; the official harness has none."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.text import plain_lines

_START = re.compile(r" *Start +\d+: (.*)")
_RESULT = re.compile(r" *\d+/\d+ Test +#\d+: (\S.*)")


def parse_ctest(log: str) -> dict[str, str]:
    """``1/3 Test #1: name ....   Passed`` to ``{name: status}``.

    Disabled tests and those that skip are SKIPPED, those that could not be run ERROR, timeouts and crashes FAILED. A
    test that was started and has no result (the run was cut off) is ERROR. Tests of one name: FAILED if one failed.
    """
    found: dict[str, str] = {}
    running: dict[str, None] = {}
    for line in plain_lines(log):
        if "Start " in line and (start := _START.fullmatch(line)):
            running[start[1].strip()] = None
        elif "Test " in line and (result := _RESULT.fullmatch(line)):
            _read(result[1], running, found)
    for name in running:
        found[name] = combine(found.get(name), ERROR)
    return found


def _read(text: str, running: dict[str, None], found: dict[str, str]) -> None:
    """The result in ``name .....   Passed    0.01 sec``; the dots are not part of the name."""
    at = max(text.rfind("   Passed "), text.rfind("***"))
    if at < 0:
        return
    name = text[:at].rstrip(".").rstrip()
    status = _status(text[at + 3 :]) if text.startswith("***", at) else PASSED
    running.pop(name, None)
    found[name] = combine(found.get(name), status)


def _status(text: str) -> str:
    """Of what follows the asterisks: ``Failed    0.01 sec``, ``Exception: SegFault  0.2 sec``, ``Not Run ...``."""
    if text.startswith(("Skipped", "Not Run (Disabled)")):
        return SKIPPED
    return ERROR if text.startswith("Not Run") else FAILED
