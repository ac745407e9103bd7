"""The console of ``swift test``: XCTest and Swift Testing."""

from __future__ import annotations

import re

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine

_XCTEST = re.compile(r"^(?:.*?)Test Case '([^'\n]+)' (passed|failed|skipped)\b", re.MULTILINE)
_TESTING = re.compile(r'^\S\s+Test "?([^"\n]+?)"? (passed|failed|skipped)\b', re.MULTILINE)
_WORDS = {"passed": PASSED, "failed": FAILED, "skipped": SKIPPED}


def parse_swift(text: str) -> dict[str, str]:
    """``{Module.Class::test: status}`` of XCTest; tests of Swift Testing stand under the name that it prints."""
    found: dict[str, str] = {}
    for match in _XCTEST.finditer(text):
        name = _xctest_name(match[1])
        found[name] = combine(found.get(name), _WORDS[match[2]])
    for match in _TESTING.finditer(text):
        found[match[1]] = combine(found.get(match[1]), _WORDS[match[2]])
    return found


def _xctest_name(name: str) -> str:
    """``-[Module.Class test]`` (macOS) and ``Class.test`` (Linux) with ``::`` before the method."""
    if name.startswith("-[") and name.endswith("]"):
        owner, _, method = name[2:-1].partition(" ")
        return f"{owner}::{method}"
    owner, dot, method = name.rpartition(".")
    return f"{owner}::{method}" if dot else name
