"""Parsers for languages other than Python: on every shared log as recorded, as the official ones, or as the truth."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import parser_corpus
import pytest
from parser_corpus import Log
from swebench.harness.grading import get_logs_eval
from swebench.harness.log_parsers import PARSER_REGISTRY
from vocabulary import FRAGMENTS, TASKS

from swe_sdk.recipes.parsers import decode_log, lenient_section, parse_log, parse_official_log, parser_names
from swe_sdk.recipes.parsers.registry import PYTHON, STRICT

LOGS = parser_corpus.other_logs()
TRUTHS = parser_corpus.truths()
NAMES = sorted(name for name in PARSER_REGISTRY if name.removeprefix("parse_log_") not in PYTHON)

STRICT_BY_FRAMEWORK = {
    "ctest_plain": "ctest",
    "ctest_v": "ctest",
    "doctest_xml": "doctest_xml",
    "go_test_v": "go_test",
    "mocha_min": "mocha_failures",
    "mocha_tap": "tap_strict",
    "node_test_tap": "node_test",
    "rspec_transformed": "rspec_status",
    "tape_tap": "tap_strict",
}
"""Where the framework of a log is not itself the name of the strict parser."""

UNSEEN = {
    "tape_tap": {"skipped"},
    "vitest_verbose": {"vt/m.test.js > suite a > skipped"},
    "node_test_tap": {"s"},
}
"""Tests that the runner does not print; and of node the suite, which is no test and failed by one of its own."""


def spec_of(name: str, index: int = 0) -> SimpleNamespace:
    instance, version = TASKS.get(name.removeprefix("parse_log_"), [("x-1", "1")])[index]
    return SimpleNamespace(instance_id=instance, version=version, log_parser=name)


def truth_params() -> list[Any]:
    return [pytest.param(row, id=row["framework"]) for row in TRUTHS]


def test_the_registry_is_covered():
    assert len(PARSER_REGISTRY) == 57
    short = {name.removeprefix("parse_log_") for name in PARSER_REGISTRY}
    assert short <= set(parser_names())
    assert {name.removeprefix("parse_log_") for name in NAMES} == set(FRAGMENTS)
    assert set(STRICT) <= short
    assert set(STRICT.values()) <= set(parser_names()) - short


@pytest.mark.shared
def test_the_shared_logs_are_there():
    parser_corpus.need(parser_corpus.datasets(), "the shared data")
    assert len(LOGS) > 45
    assert len(TRUTHS) >= 17


@pytest.mark.shared
@pytest.mark.parametrize("row", [param for param in truth_params() if param.values[0]["swebench_parser"]])
def test_equals_the_recorded_map(row: dict[str, Any]):
    text = decode_log(row["path"].read_bytes())
    recorded = list(row["swebench_parser_map"].items())
    assert list(parse_log(row["swebench_parser"], text).items()) == recorded
    assert list(parse_official_log(row["swebench_parser"], text).statuses.items()) == recorded


@pytest.mark.shared
@pytest.mark.parametrize("row", truth_params())
def test_the_strict_parser_finds_the_truth(row: dict[str, Any]):
    framework = row["framework"]
    text = lenient_section(decode_log(row["path"].read_bytes())).text
    found = parse_log(STRICT_BY_FRAMEWORK.get(framework, framework), text)
    unseen = UNSEEN.get(framework, set())
    assert found == {name: status for name, status in row["expected_status"].items() if name not in unseen}


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params(LOGS))
def test_every_parser_reads_every_log_as_officially(log: Log):
    """Logs of other frameworks too: what is no result of a parser's own must not become one."""
    text = lenient_section(decode_log(log.data())).text[:100_000]
    for name in NAMES:
        for index in range(len(TASKS.get(name.removeprefix("parse_log_"), [0]))):
            spec = spec_of(name, index)
            try:
                official = PARSER_REGISTRY[name](text, spec)
            except (AttributeError, IndexError):  # defects of calypso's and karma's
                continue
            assert list(parse_log(name, text, spec.instance_id, spec.version).items()) == list(official.items()), name


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params([log for log in LOGS if log.parser]))
def test_whole_log_is_graded_as_officially(log: Log):
    statuses, found = get_logs_eval(spec_of(log.parser), str(log.path))
    ours = parse_official_log(log.parser, decode_log(log.data()))
    assert (list(ours.statuses.items()), ours.section.found) == (list(statuses.items()), found)


@pytest.mark.shared
@pytest.mark.parametrize("parser", ["parse_log_gotest", "go_test"])
def test_known_part_of_a_go_run(parser: str):
    root = parser_corpus.datasets()
    parser_corpus.need(root, "the shared data")
    assert root is not None
    lines = (root / "logs" / "index.jsonl").read_text("utf-8").splitlines()
    row = next(row for row in map(json.loads, lines) if row.get("expected_partial_status") and "gin" in row["file"])
    text = lenient_section(decode_log((root / "logs" / row["file"]).read_bytes())).text
    assert row["expected_partial_status"].items() <= parse_log(parser, text).items()


@pytest.mark.parametrize("name", NAMES)
def test_known_with_and_without_prefix(name: str):
    short = name.removeprefix("parse_log_")
    text = "\n".join(FRAGMENTS[short])
    spec = spec_of(name)
    assert parse_log(name, text, spec.instance_id, spec.version) == parse_log(
        short, text, spec.instance_id, spec.version
    )


@pytest.mark.parametrize(
    ("name", "instance", "version", "log", "expected"),
    [
        ("immutable_js", "immutable-js__immutable-js-2005", None, "[PASSED] a > b\n✓ c", {"a > b": "PASSED"}),
        ("immutable_js", "immutable-js__immutable-js-2006", None, "[PASSED] a > b\n✓ c", {"c": "PASSED"}),
        ("immutable_js", None, None, "✓ c", {"c": "PASSED"}),
        ("jekyll", "jekyll__jekyll-8761", None, "a ....", {"a": "PASSED"}),
        ("jekyll", "jekyll__jekyll-9141", None, "test_a. B = 0.0 s = F", {"test_a": "FAILED"}),
        ("jekyll", "odd", None, "test_a. B = 0.0 s = .", {"test_a": "PASSED"}),
        ("lighthouse", None, "10.0", "running 2 test files\n  s\n    ✔ a\n", {"a": "PASSED"}),
        ("lighthouse", None, "3.1", "PASS a.js (1.2 s)", {"a.js": "PASSED"}),
        ("lighthouse", None, "not a number", "FAIL a.js", {"a.js": "FAILED"}),
        ("next", None, "1.27", "Running: a (1 of 2)\n\n\n  spec\n    1) b\n", {"spec: b": "FAILED"}),
        ("next", None, None, " xvfb-run \n  s\n    ✓ b", {"s - b": "PASSED"}),
    ],
)
def test_the_task_decides_the_form(
    name: str, instance: str | None, version: str | None, log: str, expected: dict[str, str]
):
    assert parse_log(name, log, instance, version) == expected


@pytest.mark.parametrize(
    ("name", "log", "expected"),
    [
        ("calypso", " ./node_modules/.bin/jest \n✓ flush left\n  ✓ a\n", {"- a": "PASSED"}),
        ("karma", "Starting browser\n      a\n    b\n  c\n  ✔ d", {"d": "PASSED"}),
        ("prismjs", "./node_modules/.bin/mocha tests/run.js --reporter json {broken", {}),
        ("doctest", '<doctest a="b"><TestCase name="x">', {}),
    ],
)
def test_what_ends_the_official_parser_does_not_end_ours(name: str, log: str, expected: dict[str, str]):
    with pytest.raises((AttributeError, IndexError, ValueError, SyntaxError)):
        PARSER_REGISTRY[f"parse_log_{name}"](log, spec_of(name))
    assert parse_log(name, log) == expected
