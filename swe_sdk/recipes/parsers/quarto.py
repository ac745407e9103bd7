"""Results of quarto-cli's tests, which deno runs.

Behaviour (not code) follows ``parse_log_quarto_cli`` of swebench 5.0.2.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED

_TEMPORARY = (re.compile(r"/tmp/\w+\.qmd"), re.compile(r"/tmp/\w+/"))
_VERDICTS = (("32mok", PASSED), ("31mFAILED", FAILED))


def parse_quarto_cli(log: str) -> dict[str, str]:
    """``[unit] name ... ok`` and ``[smoke] name ... FAILED``, up to the report of the errors, to ``{name: status}``.

    Names of temporary files become numbers in order of appearance. A test without a verdict on its line failed, unless
    it has a status already.
    """
    found: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for line in log.split("\n"):
        if "ERRORS" in line or "failures:" in line:
            break
        if "[smoke]" in line or "[unit]" in line:
            line = _numbered(line, numbers)
            if not _is_summary(line):
                name = line.partition("...")[0].strip()
                status = next((status for mark, status in _VERDICTS if mark in line), None)
                found[name] = status or found.get(name, FAILED)
    return found


def _numbered(line: str, numbers: dict[str, int]) -> str:
    for pattern in _TEMPORARY:
        match = pattern.search(line)
        if match:
            number = numbers.setdefault(match[0], len(numbers))
            line = pattern.sub(f"/tmp/{number}", line)
    return line


def _is_summary(line: str) -> bool:
    counts = "passed" in line and "failed" in line and "steps" in line
    return counts or line.startswith("test result:") or "34mINFO" in line
