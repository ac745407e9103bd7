"""``go test -json``: one event a line."""

from __future__ import annotations

import json
import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine

_STATUSES = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
_BUILD_FAILED = re.compile(r"^FAIL\s+(\S+)\s+\[(?:build|setup) failed\]")


def parse_go_json(text: str) -> dict[str, str]:
    """``{package::Test: status}`` (subtests as ``package::Test/sub``).

    A package that fails is ``package::package`` FAILED; one that could not be built stands under its bare name. A test
    that was started and never ended, because its package crashed, is FAILED.
    """
    found: dict[str, str] = {}
    running: dict[str, None] = {}
    for line in text.split("\n"):
        event = _event(line)
        if event is None:
            if built := _BUILD_FAILED.match(line):
                found[built[1]] = FAILED
            continue
        action, package, test = event
        name = f"{package}::{test}" if package and test else test or f"{package}::package"
        if action == "run" and test:
            running[name] = None
        elif action in _STATUSES and (test or action == "fail"):
            running.pop(name, None)
            found[name] = combine(found.get(name), _STATUSES[action])
    return {**found, **dict.fromkeys(running, FAILED)}


def _event(line: str) -> tuple[str, str, str] | None:
    """Action, package and test of a line, or None where it is no event."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    fields = [event.get(name) or "" for name in ("Action", "Package", "Test")]
    action, package, test = (field if isinstance(field, str) else "" for field in fields)
    return (action, package, test) if action and (package or test) else None
