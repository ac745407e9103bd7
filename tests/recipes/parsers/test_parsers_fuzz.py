"""On texts made of fragments of real logs our parsers give what the official ones give, and never raise."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from swebench.harness.grading import get_logs_eval
from swebench.harness.log_parsers import PARSER_REGISTRY

from swe_sdk.recipes.parsers import decode_log, lenient_section, parse_log, parse_official_log, parser_names
from swe_sdk.recipes.parsers.registry import PYTHON
from swe_sdk.recipes.parsers.status import STATUSES

QUICK = settings(
    max_examples=150,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

STATUS_WORDS = [*STATUSES, "XPASS", "ok", "OK", "okay", "FAIL", "FAIL:", "ERROR:", "skipped", "expected failure"]
NAMES = [
    "tests/test_a.py::test_b",
    "t.py::t[/a/b/c]",
    "t.py::t[//a]",
    "t[/a/*]",
    "t[a-b c]",
    "t[[x]]y",
    "t]u[",
    "[100%]",
    "[3]",
    "[٣]",
    "[12m",
    "[0m",
    "test_x (mod.Case.test_x)",
    "test_y (mod.Case)",
    "test_",
    "test_solve",
    "sympy/a/tests/test_b.py:test_c",
    ".py:",
    "____",
    "MouseButton.LEFT",
    "MouseButton.RIGHT",
    "--version is equivalent to version",
    "Applying sites.0002_alter_domain_unique...test_no_migrations",
    "Testing against Django installed in '/x'",
    "silenced).",
    "Internal Server Error: /a/",
    "System check identified no issues (0 silenced)",
    "=" * 70,
    "-" * 70,
    "Ran 3 tests in 0.1s",
    "# Subtest: a",
    "ok 1 - a",
    "not ok 2 - a # TODO",
    "---",
    "type: 'suite'",
]
JOINTS = [
    *("", " ", "  ", "    ", "\n", "\n", "\n\n", "\r\n", "\r", "\t", "...", " ... ", " ...", " - ", "-", ".", "/", "*"),
    *(
        " E",
        " F",
        " ok",
        " ... ok",
        " ... OK",
        " ...  OK",
        " ... FAIL",
        " ... ERROR",
        " ... skipped 'why'",
        " silenced).\nok",
    ),
    *(
        "\x00",
        "\x0b",
        "\x0c",
        "\x1b",
        "\x1b[31m",
        "\x1c",
        "\x1f",
        "\x85",
        "\xa0",
        "\u2028",
        "\u3000",
        "\ud800",
        "é",
        "✓",
    ),
]
FRAGMENTS = st.one_of(st.sampled_from(STATUS_WORDS), st.sampled_from(NAMES), st.sampled_from(JOINTS), st.characters())
TEXTS = st.lists(FRAGMENTS, max_size=40).map("".join)
LINES = st.lists(
    st.tuples(st.sampled_from(["", " ", *STATUS_WORDS]), st.sampled_from(JOINTS), st.sampled_from(NAMES), FRAGMENTS),
    max_size=12,
).map(lambda rows: "\n".join(map("".join, rows)))

FAMILIES = [f"parse_log_{name}" for name in sorted(PYTHON)]
DISTINCT = list({PARSER_REGISTRY[name]: name for name in reversed(FAMILIES)}.values())


@pytest.mark.parametrize("name", sorted(DISTINCT))
@given(text=st.one_of(TEXTS, LINES))
@QUICK
def test_equals_the_official_parser_where_that_does_not_raise(name: str, text: str):
    ours = parse_log(name, text)
    try:
        official = PARSER_REGISTRY[name](text, None)
    except IndexError:
        return
    assert list(ours.items()) == list(official.items())


@pytest.mark.parametrize("name", ["unittest", "node_test"])
@given(text=st.one_of(TEXTS, LINES))
@QUICK
def test_our_own_parsers_never_raise_and_keep_to_the_statuses(name: str, text: str):
    assert set(parse_log(name, text).values()) <= set(STATUSES)


MARKERS = [
    ">>>>> Start Test Output",
    ">>>>> End Test Output",
    ">>>>> Test Exit Code: 1",
    ">>>>> Test Exit Code:\n0",
    ">>>>> Test Exit Code: -9",
    ">>>>> Applied Patch (pred)",
    "Return Code: 1",
    "\nPASSED a::b\n",
    "\nFAILED a::b\n",
    "\nERROR a::b\n",
    "3 passing",
    "0 passing",
    "10 specs, 0 failures",
    "Tests:  2",
    "\n# tests 4\n",
    "x': ok\n",
    "Executed 0 of 0",
    "Executed 1 of 2",
]
BAD = [">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out after 9 s"]
PIECES = st.one_of(st.sampled_from(MARKERS), st.sampled_from(["\n", "\r\n", "\r", " ", "é"]), st.sampled_from(BAD))
LOGS = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(st.sampled_from([*MARKERS, "\n"]), max_size=10).map(
        lambda pieces: "".join((*pieces[:2], MARKERS[0], *pieces[2:5], MARKERS[1], *pieces[5:]))
    ),
)


@given(log=LOGS)
@QUICK
def test_whole_logs_are_graded_as_officially(log: str, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.getbasetemp() / "fuzzed.log"
    path.write_bytes(log.encode())
    statuses, found = get_logs_eval(SimpleNamespace(log_parser="parse_log_pytest"), str(path))
    ours = parse_official_log("pytest", decode_log(path.read_bytes()))
    assert (ours.statuses, ours.section.found) == (statuses, found)
    assert ours.section.found or ours.section.reason


@given(log=st.one_of(LOGS, TEXTS))
@QUICK
def test_lenient_sections_never_raise_and_are_part_of_the_log(log: str):
    section = lenient_section(log)
    assert section.text in log
    assert section.found or section.reason


HOSTILE = {
    "one long word": "a" * 300_000 + ") ... ok)",
    "many cases": " (a)" * 60_000 + " ... ok",
    "many skips": "test_a (m.test_a) ... " + "skipped 'x" * 40_000 + '"',
    "brackets": "PASSED " + "[" * 300_000 + "]",
    "digits": ">>>>> Start Test Output>>>>> End Test Output" + "1" * 300_000 + " pass",
    "points": "# Subtest: a\n" + "ok 1 - a # SKI" * 30_000,
    "headings": " .py:" * 60_000,
}


@pytest.mark.parametrize("log", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_takes_more_than_linear_time(log: str):
    started = time.monotonic()
    for name in parser_names():
        parse_official_log(name, log)
        parse_log(name, log)
    assert time.monotonic() - started < 20
