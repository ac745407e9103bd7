"""Results of ``go test -v``.

:func:`parse_gotest` follows the behaviour (not the code) of ``parse_log_gotest`` of swebench 5.0.2, which does not see
a result behind text that a test printed without a line feed, and takes any line of that form for one.
:func:`parse_go_test` is a strict parser of our own.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import ERROR, FAILED, PASSED, SKIPPED, combine

_WORDS = {"--- PASS: ": PASSED, "--- FAIL: ": FAILED, "--- SKIP: ": SKIPPED}
_START = len("--- PASS: ")
_RUN = "=== RUN   "
_RESULT = re.compile(r"--- (PASS|FAIL|SKIP): (\S+) \(\d+\.\d+s\)$")
_STATUSES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}


def parse_gotest(log: str) -> dict[str, str]:
    """``--- PASS: name (0.00s)`` lines, indented or not, to ``{name: status}``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if "--- " in line:
            line = line.strip()
            status = _WORDS.get(line[:_START])
            if status and line.endswith(")"):
                end = line.rfind(" (", _START + 1, len(line) - 2)
                if end > 0:
                    found[line[_START:end]] = status
    return found


def parse_go_test(log: str) -> dict[str, str]:
    """Each test that was announced (``=== RUN``) to its status, subtests included.

    * A result may stand behind what the test printed. Without an announcement only a failure counts: without ``-v``
      go prints nothing else.
    * Tests of one name in several packages or runs: FAILED if one of them failed.
    * A test without a result (the run was cut off, or another test ended the program) is ERROR.
    """
    found: dict[str, str] = {}
    running: dict[str, None] = {}
    for line in log.replace("\r\n", "\n").split("\n"):
        if line.startswith(_RUN):
            running[line.removeprefix(_RUN).strip()] = None
        elif "--- " in line and (match := _RESULT.search(line)):
            name, status = match[2], _STATUSES[match[1]]
            if name in running or name in found or status == FAILED:
                running.pop(name, None)
                found[name] = combine(found.get(name), status)
    for name in running:
        found[name] = combine(found.get(name), ERROR)
    return found
