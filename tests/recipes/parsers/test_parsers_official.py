"""On every shared log our status maps equal the recorded ones and those of the swebench package, order included."""

from __future__ import annotations

from types import SimpleNamespace

import parser_corpus
import pytest
from parser_corpus import Log
from swebench.harness.grading import get_logs_eval
from swebench.harness.log_parsers import PARSER_REGISTRY
from swebench.harness.log_parsers.python import MAP_REPO_TO_PARSER_PY

from swe_sdk.errors import UnknownParser
from swe_sdk.recipes.parsers import (
    decode_log,
    lenient_section,
    official_section,
    parse_log,
    parse_official_log,
    parser_for_repository,
    parser_names,
)

LOGS = parser_corpus.all_logs()
PYTHON_NAMES = [name for name, parser in PARSER_REGISTRY.items() if parser.__module__.endswith(".python")]


@pytest.mark.shared
def test_the_shared_logs_are_there():
    parser_corpus.need(parser_corpus.datasets(), "the shared data")
    assert len(LOGS) > 300
    assert {log.parser for log in LOGS} <= set(PYTHON_NAMES)


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params([log for log in LOGS if log.recorded]))
def test_equals_the_recorded_map(log: Log):
    text, recorded = decode_log(log.data()), list(log.recorded_statuses().items())
    assert list(parse_log(log.parser, text).items()) == recorded
    assert list(parse_log(log.parser, lenient_section(text).text).items()) == recorded


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params(LOGS))
def test_equals_the_official_parser(log: Log):
    text = decode_log(log.data())
    sections = {text, official_section(text).text, lenient_section(text).text}
    for section in sections:
        official = PARSER_REGISTRY[log.parser](section, None)
        assert list(parse_log(log.parser, section).items()) == list(official.items())


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params(LOGS))
def test_whole_log_is_graded_as_officially(log: Log):
    statuses, found = get_logs_eval(SimpleNamespace(log_parser=log.parser), str(log.path))
    ours = parse_official_log(log.parser, decode_log(log.data()))
    assert (list(ours.statuses.items()), ours.section.found) == (list(statuses.items()), found)


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params([log for log in LOGS if "markers)" in log.layout]))
def test_markers_bound_what_the_index_says(log: Log):
    text = decode_log(log.data())
    section = lenient_section(text)
    assert section.found
    assert section.whole_log == log.layout.startswith("raw")


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params([log for log in LOGS if "1.x" in log.layout]))
def test_old_layout_has_a_section_and_an_exit_code(log: Log):
    section = lenient_section(decode_log(log.data()))
    if section.reason == "patch_apply_failed" or section.reason == "tests_timed_out":
        assert not section.found
    else:
        assert (section.found, section.reason) == (True, "swebench_1x")
        assert section.exit_code in (0, 1, 2)


@pytest.mark.parametrize("name", PYTHON_NAMES)
def test_every_official_name_is_known_with_and_without_prefix(name: str):
    text = "PASSED a::b\nFAILED a::c[/x/y] - no\ntest_x (m.C) ... ok\ntest_f ok\n"
    expected = PARSER_REGISTRY[name](text, None)
    assert expected
    assert parse_log(name, text) == parse_log(name.removeprefix("parse_log_"), text, "an__instance-1") == expected


def test_names_are_sorted():
    assert list(parser_names()) == sorted(set(parser_names()))
    assert {name.removeprefix("parse_log_") for name in PYTHON_NAMES} < set(parser_names())


@pytest.mark.parametrize(("repository", "official"), MAP_REPO_TO_PARSER_PY.items())
def test_repositories_have_their_official_parser(repository: str, official: object):
    name = parser_for_repository(repository)
    assert name is not None
    assert PARSER_REGISTRY[f"parse_log_{name}"] is official
    assert parser_for_repository("someone/else") is None


@pytest.mark.parametrize(
    ("name", "close"),
    [("pytst", "pytest"), ("parse_log_djago", "parse_log_django"), ("unitest", "unittest"), ("sphynx", "sphinx")],
)
def test_an_unknown_name_is_answered_with_close_ones(name: str, close: str):
    with pytest.raises(UnknownParser) as caught:
        parse_log(name, "")
    assert caught.value.name == name
    assert close in str(caught.value)


def test_an_unknown_name_is_unknown_for_whole_logs_too():
    with pytest.raises(UnknownParser):
        parse_official_log("parse_log_plotly", "")
