"""Runners of which whole test files are the results: ``PASS src/a.test.js (5.1 s)``.

Behaviour (not code) follows ``parse_log_carbon``, ``parse_log_react_pdf`` (the same) and ``parse_log_grommet`` of
swebench 5.0.2. The last line about a file wins, but for grommet, where any ``PASS`` line beats all ``FAIL`` lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from swe_sdk.recipes.parsers.status import FAILED, PASSED

_WORDS = {"PASS": PASSED, "FAIL": FAILED}
_STARTS = tuple(_WORDS)
_DURATIONS = tuple(re.compile(rf"(.*)\s\([\d.]+{unit}\)") for unit in ("ms", r"\ss", "s"))
_AT_END = re.compile(r"\s\([\d.]+\s?m?s\)$")


def parse_carbon(log: str) -> dict[str, str]:
    """Lines of ``PASS file`` and ``FAIL file`` to ``{file: status}``; the file ends at its last duration, if any."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        if line.startswith(_STARTS) and line[4:5].isspace():
            found[_file(line)] = _WORDS[line[:4]]
    return found


def parse_grommet(log: str) -> dict[str, str]:
    """As :func:`parse_carbon`, all failures before all passes; a name may stand on the line after its word."""
    found = dict.fromkeys(_names(log, "FAIL"), FAILED)
    found.update(dict.fromkeys(_names(log, "PASS"), PASSED))
    return found


def _file(line: str) -> str:
    """Of several kinds of duration milliseconds go first, and the last one of a kind counts."""
    if "s)" in line:
        for duration in _DURATIONS:
            match = duration.match(line, 5)
            if match:
                return match[1]
    return line[5:]


def _names(log: str, word: str) -> Iterator[str]:
    at = log.find(word)
    while at >= 0:
        start = at + len(word)
        if (at == 0 or log[at - 1] == "\n") and log[start : start + 1].isspace():
            end = log.find("\n", start + 1)
            end = len(log) if end < 0 else end
            yield _AT_END.sub("", log[start + 1 : end].strip())
            start = end
        at = log.find(word, start)
