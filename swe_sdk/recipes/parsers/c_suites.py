"""Results of the test programs of redis and valkey, jq and micropython: one line a test, its status in front.

Behaviour (not code) follows ``parse_log_redis``, ``parse_log_jq`` and ``parse_log_micropython_test`` of swebench 5.0.2.
"""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED

_REDIS_WORDS = {"[ok": PASSED, "[err": FAILED, "[skip": SKIPPED, "[ignore": SKIPPED}
_DURATION = re.compile(r"\s\(\d+\s*m?s\)")
_PLACE = re.compile(r"(?<!\s)\s++in\s++\S++$")
_JQ_WORDS = {"PASS:": PASSED, "FAIL:": FAILED}
_MICROPYTHON_WORDS = {"pass": PASSED, "FAIL": FAILED, "skip": SKIPPED}


def parse_redis(log: str) -> dict[str, str]:
    """``[ok]: name (5 ms)`` and so on to ``{name: status}``; a failing name loses its `` in file``."""
    found: dict[str, str] = {}
    for line in log.split("\n"):
        word, _, rest = line.strip().partition("]:")
        status = _REDIS_WORDS.get(word)
        if status and rest[:1].isspace():
            name = _without_duration(rest[1:])
            found[_PLACE.sub("", name) if status == FAILED else name] = status
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


def _without_duration(name: str) -> str:
    if name.endswith("s)"):
        at = name.rfind("(") - 1
        if at > 0 and _DURATION.fullmatch(name, at):
            return name[:at]
    return name
