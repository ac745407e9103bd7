"""Parsers for what runners write for machines: JUnit XML, JSON reports, TAP, and lines with marks.

All are strict: a test that is reported twice and fails once has failed, nothing is invented from counts, and no text
makes one raise. Each takes text and gives ``{test id: status}``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from swe_sdk.recipes.parsers.structured.cpp import parse_cppunit, parse_geos, parse_gtest_console, parse_gtest_json
from swe_sdk.recipes.parsers.structured.go import parse_go_json
from swe_sdk.recipes.parsers.structured.ids import by_normalized, normalized
from swe_sdk.recipes.parsers.structured.javascript import parse_jest_json, parse_mocha_json
from swe_sdk.recipes.parsers.structured.junit import parse_junit_xml
from swe_sdk.recipes.parsers.structured.lua import parse_lust, parse_mini_test, parse_telescope
from swe_sdk.recipes.parsers.structured.marks import parse_bun, parse_mocha_spec
from swe_sdk.recipes.parsers.structured.pytest_lines import parse_pytest_lines
from swe_sdk.recipes.parsers.structured.rust import parse_libtest_json, parse_nextest
from swe_sdk.recipes.parsers.structured.swift import parse_swift
from swe_sdk.recipes.parsers.structured.tap import parse_tap

__all__ = ["STRUCTURED", "by_normalized", "normalized"]

STRUCTURED: Final[dict[str, Callable[[str], dict[str, str]]]] = {
    "bun_lines": parse_bun,
    "cppunit_lines": parse_cppunit,
    "geos_lines": parse_geos,
    "go_test_json": parse_go_json,
    "gtest_console": parse_gtest_console,
    "gtest_json": parse_gtest_json,
    "jest_report": parse_jest_json,
    "junit_xml": parse_junit_xml,
    "libtest_json": parse_libtest_json,
    "lust_lines": parse_lust,
    "mini_test_lines": parse_mini_test,
    "mocha_report": parse_mocha_json,
    "mocha_marks": parse_mocha_spec,
    "nextest_lines": parse_nextest,
    "pytest_lines": parse_pytest_lines,
    "swift_lines": parse_swift,
    "tap_points": parse_tap,
    "telescope_lines": parse_telescope,
}
"""By the names that :func:`swe_sdk.recipes.parsers.parse_log` takes."""
