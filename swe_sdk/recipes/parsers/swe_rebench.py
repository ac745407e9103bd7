"""Parsers that rows of SWE-rebench V2 name and the official registry of SWE-bench has not.

Written from the rows' own test ids and from what the runners print; the dataset authors' file of parsers is not a part
of this package, and where ours reads a log otherwise, theirs is the one that the ids were made with. Names that are
missing here and in the official registry are an ``UnknownParser``, which masks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from swe_sdk.recipes.parsers.status import FAILED, PASSED, SKIPPED, combine
from swe_sdk.recipes.parsers.structured import STRUCTURED

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_MARKS = {
    **dict.fromkeys("✓✔√", PASSED),
    **dict.fromkeys("✕✖✗✘\u00d7", FAILED),
    **dict.fromkeys("○◌◦↓", SKIPPED),
}
_TIME = re.compile(r"(?<!\s)\s+\(\d+(?:\.\d+)?\s?m?s\)$")
_MAVEN = re.compile(r"(?:\[\w+\]\s+)?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+).*? -+ in (\S+)")
_DART = {"success": PASSED, "failure": FAILED, "error": FAILED}
_ELIXIR = re.compile(r"\* test (.+?)(?: \((\d[\d.]*ms|skipped|excluded)\))?(?: \[L#\d+\])?")
_ELIXIR_FAILED = re.compile(r"\d+\) test (.+) \([\w.]+\)")
_DOTNET = re.compile(r"(Passed|Failed|Skipped) (\S.*?)(?: \[[^\[\]]*\])?")


def parse_js_marks(text: str) -> dict[str, str]:
    """``{title: status}`` of lines that begin with a mark (✓ ✕ ○), as jest and mocha do; describes are not read."""
    found: dict[str, str] = {}
    for line in _lines(text):
        status = _MARKS.get(line[:1])
        title = _TIME.sub("", line[1:].strip()) if status else ""
        if status and title:
            found[title] = combine(found.get(title), status)
    return found


def parse_dart(text: str) -> dict[str, str]:
    """``{full name: status}`` of ``dart test --reporter json``; a test that started and never ended is FAILED."""
    names: dict[int, str] = {}
    found: dict[str, str] = {}
    open_tests: dict[int, None] = {}
    for event in _events(text):
        test = event.get("test")
        if event.get("type") == "testStart" and isinstance(test, dict) and isinstance(test.get("id"), int):
            names[test["id"]] = str(test.get("name", ""))
            open_tests[test["id"]] = None
        number = event.get("testID")
        if event.get("type") == "testDone" and isinstance(number, int) and number in names:
            open_tests.pop(number, None)
            if event.get("hidden") is not True:
                status = SKIPPED if event.get("skipped") is True else _DART.get(str(event.get("result")), FAILED)
                found[names[number]] = combine(found.get(names[number]), status)
    return {**found, **{names[number]: FAILED for number in open_tests}}


def parse_maven_classes(text: str) -> dict[str, str]:
    """``{class: status}`` of surefire's ``Tests run: 3, Failures: 0, ... - in org.Class`` lines."""
    found: dict[str, str] = {}
    for line in _lines(text):
        if match := _MAVEN.search(line):
            run, failures, errors, skipped = (int(match[n][:9]) for n in range(1, 5))
            status = FAILED if failures + errors else SKIPPED if run == skipped else PASSED
            found[match[5]] = combine(found.get(match[5]), status)
    return found


def parse_elixir(text: str) -> dict[str, str]:
    """``{name: status}`` of ``mix test --trace``."""
    found: dict[str, str] = {}
    for line in _lines(text):
        if match := _ELIXIR.fullmatch(line):
            found[match[1]] = combine(found.get(match[1]), SKIPPED if match[2] in ("skipped", "excluded") else PASSED)
        elif failed := _ELIXIR_FAILED.fullmatch(line):
            found[failed[1]] = FAILED
    return found


def parse_dotnet(text: str) -> dict[str, str]:
    """``{name: status}`` of ``dotnet test`` with its normal logger."""
    words = {"Passed": PASSED, "Failed": FAILED, "Skipped": SKIPPED}
    found: dict[str, str] = {}
    for line in _lines(text):
        if (match := _DOTNET.fullmatch(line)) and not match[2].startswith(("!", "-", ":")):
            found[match[2]] = combine(found.get(match[2]), words[match[1]])
    return found


def _lines(text: str) -> list[str]:
    return [line.strip() for line in _ANSI.sub("", text).split("\n")]


def _events(text: str) -> list[Mapping[str, Any]]:
    events = []
    for line in text.split("\n"):
        if line.startswith("{"):
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                continue
            events.append(event)
    return events


SWE_REBENCH: Final[dict[str, Callable[[str], dict[str, str]]]] = {
    **dict.fromkeys(("parse_log_js", "parse_log_js_2", "parse_log_js_3", "parse_log_js_4"), parse_js_marks),
    "parse_log_dart": parse_dart,
    "parse_log_elixir": parse_elixir,
    "parse_log_csharp": parse_dotnet,
    "parse_java_mvn": parse_maven_classes,
    "parse_java_mvn_v2": parse_maven_classes,
    "parse_log_junit": STRUCTURED["junit_xml"],
    "parse_log_swift": STRUCTURED["swift_lines"],
}
