"""GoogleTest (JSON and console), CppUnit and the runner of GEOS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.structured.documents import as_objects, as_text, json_objects

_CONSOLE = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+)(?:, where .*)?(?: \(\d+ ms\))?\s*$", re.MULTILINE)
_CPPUNIT = re.compile(r"^([A-Za-z_]\w*::[A-Za-z_]\w*) ?: ?(OK|FAIL|ERROR)\r?$", re.MULTILINE)
_CPPUNIT_NAMED = re.compile(r"^([A-Za-z_]\w*::[A-Za-z_]\w*) ?: ?(assertion|error)\b", re.MULTILINE)
_GEOS = re.compile(r"^([A-Za-z_][\w:]*::[A-Za-z_]\w*): ?(.*)$", re.MULTILINE)
_GEOS_FAILURE = re.compile(r"\[\d+=[FXTUV]\]|(?<!\w)[FX](?!\w)")
_GEOS_LINE = re.compile(r"(?:\.|\[\d+=\w\])+\s*")


def parse_gtest_json(text: str) -> dict[str, str]:
    """``{Suite::Test: status}`` of ``--gtest_output=json``."""
    found: dict[str, str] = {}
    for report in json_objects(text, having="testsuites"):
        for suite in as_objects(report["testsuites"]):
            for case in as_objects(suite.get("testsuite")):
                owner = as_text(case.get("classname")) or as_text(suite.get("name"))
                title = as_text(case.get("name"))
                if title:
                    name = f"{owner}::{title}" if owner else title
                    found[name] = combine(found.get(name), _gtest_status(case))
    return found


def _gtest_status(case: Mapping[str, Any]) -> str:
    if case.get("failures"):
        return FAILED
    return SKIPPED if case.get("status") == "NOTRUN" or case.get("result") in ("SKIPPED", "SUPPRESSED") else PASSED


def parse_gtest_console(text: str) -> dict[str, str]:
    """``{Suite::Test: status}`` of the console, where ``I/Suite.Test/0`` becomes ``I/Suite::Test/0``."""
    found: dict[str, str] = {}
    words = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}
    for match in _CONSOLE.finditer(text):
        if "." in match[2]:
            name = match[2].replace(".", "::")
            found[name] = combine(found.get(name), words[match[1]])
    return found


def parse_cppunit(text: str) -> dict[str, str]:
    """``{Class::method: status}`` of CppUnit's BriefTestProgressListener."""
    found: dict[str, str] = {}
    for match in _CPPUNIT.finditer(text):
        found[match[1]] = combine(found.get(match[1]), PASSED if match[2] == "OK" else FAILED)
    for match in _CPPUNIT_NAMED.finditer(text):
        found[match[1]] = FAILED
    return found


def parse_geos(text: str) -> dict[str, str]:
    """``{group: status}`` of GEOS' TUT runner: ``geos::Group: ..[3=F].``, a dot a test; one failure fails the group."""
    found: dict[str, str] = {}
    for match in _GEOS.finditer(text):
        name, marks = match[1], match[2].strip()
        if _GEOS_FAILURE.search(marks):
            found[name] = FAILED
        elif _GEOS_LINE.fullmatch(marks):
            found[name] = combine(found.get(name), PASSED)
    return found
