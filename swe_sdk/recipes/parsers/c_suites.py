"""Results of the test programs of redis and valkey, jq and micropython: one line a test, its status in front.

Behaviour (not code) follows ``parse_log_redis``, ``parse_log_jq`` and ``parse_log_micropython_test`` of swebench 5.0.2.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED

_REDIS = re.compile(r"\[(ok|err|skip|ignore)\]:\s")
_REDIS_WORDS = {"ok": PASSED, "err": FAILED, "skip": SKIPPED, "ignore": SKIPPED}
_DURATION = re.compile(r"\s\(\d+\s*m?s\)")
_PLACE = re.compile(r"(?<!\s)\s++in\s++\S++$")
_JQ_WORDS = {"PASS:": PASSED, "FAIL:": FAILED}
_MICROPYTHON_WORDS = {"pass": PASSED, "FAIL": FAILED, "skip": SKIPPED}


def parse_redis(log: str) -> dict[str, str]:
    """``[ok]: name (5 ms)`` and so on to ``{name: status}``; a failing name loses its `` in file``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        line = line.strip()
        match = _REDIS.match(line) if line.startswith("[") else None
        if match:
            name = line[match.end() : _end_of_name(line, match.end())]
            found[_PLACE.sub("", name) if match[1] == "err" else name] = _REDIS_WORDS[match[1]]
    return found


def parse_jq(log: str) -> dict[str, str]:
    """``PASS: name`` and ``FAIL: name`` to ``{name: status}``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        line = line.strip()
        status = _JQ_WORDS.get(line[:5])
        if status and line[5:6].isspace():
            found[line[6:]] = status
    return found


def parse_micropython_test(log: str) -> dict[str, str]:
    """``pass name``, ``FAIL name`` and ``skip name`` to ``{name: status}``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        line = line.strip()
        status = _MICROPYTHON_WORDS.get(line[:4])
        if status and line[4:5].isspace():
            found[line[5:].lstrip()] = status
    return found


def _end_of_name(line: str, start: int) -> int:
    """Where the duration at the end of the line starts; the end of the line where there is none."""
    at = line.rfind("(") - 1
    return at if line.endswith("s)") and at > start and _DURATION.fullmatch(line, at) else len(line)
