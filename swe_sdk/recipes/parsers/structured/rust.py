"""cargo-nextest's lines and libtest's JSON events."""

from __future__ import annotations

import json
import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(
    r"(?:TRY \d+ )?(PASS|FLAKY \d+/\d+|FAIL|SIG[A-Z]+|ABORT|TIMEOUT|LEAK|SKIP)\s+\[[^\]]*\]\s+(?:\(\s*\d+/\d+\) )?(.+)"
)
_PASSING = ("PASS", "FLAKY", "LEAK")
_EVENTS = {"ok": PASSED, "failed": FAILED, "timeout": FAILED, "ignored": SKIPPED}


def parse_nextest(text: str) -> dict[str, str]:
    """``{binary test::path: status}`` of cargo-nextest's lines, ``PASS [   0.005s] crate tests::name``.

    A test that was tried again counts by its last try; the summary at the end, which repeats failures, agrees with it.
    """
    found: dict[str, str] = {}
    for line in _ANSI.sub("", text).split("\n"):
        if match := _LINE.fullmatch(line.strip()):
            word, name = match[1], match[2]
            found[name] = SKIPPED if word == "SKIP" else PASSED if word.startswith(_PASSING) else FAILED
    return found


def parse_libtest_json(text: str) -> dict[str, str]:
    """``{test::path: status}`` of ``cargo test -- --format json``; one that started and never ended is FAILED."""
    found: dict[str, str] = {}
    running: dict[str, None] = {}
    for line in text.split("\n"):
        event = _event(line)
        if event is None:
            continue
        kind, name = event
        if kind == "started":
            running[name] = None
        elif kind in _EVENTS:
            running.pop(name, None)
            found[name] = combine(found.get(name), _EVENTS[kind])
    return {**found, **dict.fromkeys(running, FAILED)}


def _event(line: str) -> tuple[str, str] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    kind, name = event.get("event"), event.get("name")
    is_test = event.get("type") == "test" and isinstance(kind, str) and isinstance(name, str)
    return (kind, name) if is_test else None
