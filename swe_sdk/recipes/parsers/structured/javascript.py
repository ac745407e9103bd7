"""The JSON reports of jest, vitest and mocha."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.structured.documents import as_objects, as_text, json_objects

_JEST = {"passed": PASSED, "failed": FAILED, "pending": SKIPPED, "skipped": SKIPPED, "todo": SKIPPED}
_MOCHA = (("passes", PASSED), ("failures", FAILED), ("pending", SKIPPED))


def parse_jest_json(text: str) -> dict[str, str]:
    """``{file::full name: status}`` of jest's or vitest's JSON report.

    A file that failed without a single test is ``file::suite`` FAILED. Disabled and focused-away tests have no status.
    """
    found: dict[str, str] = {}
    for report in json_objects(text, having="testResults"):
        for suite in as_objects(report["testResults"]):
            _read_suite(suite, found)
    return found


def _read_suite(suite: Mapping[str, Any], found: dict[str, str]) -> None:
    file = as_text(suite.get("name"))
    results = as_objects(suite.get("assertionResults"))
    if not results and suite.get("status") == "failed":
        found[f"{file}::suite"] = FAILED
    for result in results:
        title = as_text(result.get("fullName")) or as_text(result.get("title"))
        status = _JEST.get(as_text(result.get("status")))
        if title and status:
            name = f"{file}::{title}"
            found[name] = combine(found.get(name), status)


def parse_mocha_json(text: str) -> dict[str, str]:
    """``{file::full title: status}`` of mocha's JSON report; without a file the title alone."""
    found: dict[str, str] = {}
    for report in json_objects(text, having="stats"):
        for group, status in _MOCHA:
            for test in as_objects(report.get(group)):
                file, title = as_text(test.get("file")), as_text(test.get("fullTitle"))
                name = f"{file}::{title}" if file and title else file or title
                if name:
                    found[name] = combine(found.get(name), status)
    return found
