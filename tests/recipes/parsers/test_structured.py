"""What runners write for machines is read as it was meant: failures stand, nothing is invented, no text raises."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swe_sdk.recipes.parsers import parse_log
from swe_sdk.recipes.parsers.status import STATUSES
from swe_sdk.recipes.parsers.structured import STRUCTURED, by_normalized, normalized
from swe_sdk.recipes.parsers.swe_rebench import SWE_REBENCH
from tests.shared import shared_dir

PARSERS = {**STRUCTURED, **SWE_REBENCH}

JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="s" tests="7">
  <testcase classname="a.B" name="ok" time="0.1"/>
  <testcase classname="a.B" name="bad"><failure message="m">x &lt; y</failure></testcase>
  <testcase classname="a.B" name="broken"><error/></testcase>
  <testcase classname="a.B" name="skipped"><skipped/></testcase>
  <testcase classname="a.B" name="xfail"><skipped type="pytest.xfail" message="known"/></testcase>
  <testcase name="alone"/>
  <testcase classname="c" name="c" status="notrun"/>
</testsuite></testsuites>
"""
JUNIT_MAP = {
    "a.B::ok": "PASSED",
    "a.B::bad": "FAILED",
    "a.B::broken": "ERROR",
    "a.B::skipped": "SKIPPED",
    "a.B::xfail": "XFAIL",
    "alone": "PASSED",
    "c::c": "SKIPPED",
}


def test_junit_xml():
    read = STRUCTURED["junit_xml"]
    assert read(JUNIT) == JUNIT_MAP
    assert read("compiling...\n" + JUNIT + "\ndone\n") == JUNIT_MAP
    again = JUNIT.replace('name="ok" time="0.1"/>', 'name="ok"><failure/></testcase>')
    assert read(JUNIT + again)["a.B::ok"] == "FAILED"
    assert read(again + JUNIT)["a.B::ok"] == "FAILED", "one failure is not undone by a later pass"
    nested = '<testsuite><testsuite><testcase name="in"/></testsuite><testcase name="out"/></testsuite>'
    assert read(nested) == {"in": "PASSED", "out": "PASSED"}


@pytest.mark.parametrize(
    "text",
    [
        JUNIT[:-30],
        '<!DOCTYPE x [<!ENTITY a "b">]><testsuites><testcase name="&a;"/></testsuites>',
        "<testsuites><testcase></testsuites>",
        "<testsuite/>",
    ],
)
def test_broken_xml_says_nothing(text):
    assert STRUCTURED["junit_xml"](text) == {}


def test_go_events():
    def event(action, test=None, package="m"):
        return json.dumps({"Action": action, "Package": package, **({"Test": test} if test else {})})

    lines = [
        event("run", "A"), event("pass", "A"), event("run", "B"), event("run", "B/sub"), event("fail", "B/sub"),
        event("fail", "B"), event("run", "C"), event("skip", "C"), event("run", "Crashed"), event("fail"),
        "FAIL\tother [build failed]", "ok  \tthird\t0.1s", "{broken", '{"Action": 3, "Package": []}',
    ]  # fmt: skip
    assert STRUCTURED["go_test_json"]("\n".join(lines)) == {
        "m::A": "PASSED",
        "m::B/sub": "FAILED",
        "m::B": "FAILED",
        "m::C": "SKIPPED",
        "m::package": "FAILED",
        "other": "FAILED",
        "m::Crashed": "FAILED",
    }
    printed = {"Action": "output", "Package": "m", "Test": "B", "Output": event("pass", "Forged") + "\n"}
    assert STRUCTURED["go_test_json"](json.dumps(printed)) == {}, "what a test prints is text within an event"


def test_jest_and_mocha_reports():
    jest = {
        "numFailedTests": 1,
        "testResults": [
            {"name": "/r/a.js", "status": "failed", "assertionResults": [
                {"fullName": "s one", "title": "one", "status": "passed"},
                {"fullName": "s two", "title": "two", "status": "failed"},
                {"fullName": "s three", "status": "pending"},
                {"fullName": "s two", "status": "passed"},
                "odd",
            ]},
            {"name": "/r/b.js", "status": "failed", "assertionResults": []},
        ],
    }  # fmt: skip
    wanted = {
        "/r/a.js::s one": "PASSED",
        "/r/a.js::s two": "FAILED",
        "/r/a.js::s three": "SKIPPED",
        "/r/b.js::suite": "FAILED",
    }
    assert STRUCTURED["jest_report"](json.dumps(jest)) == wanted
    assert STRUCTURED["jest_report"]("warning {x}\n" + json.dumps(jest) + "\nbye") == wanted
    mocha = {"stats": {}, "passes": [{"file": "t.js", "fullTitle": "a b"}], "failures": [{"fullTitle": "c"}],
             "pending": [{"file": "t.js", "fullTitle": "d"}]}  # fmt: skip
    assert STRUCTURED["mocha_report"](json.dumps(mocha, indent=2)) == {
        "t.js::a b": "PASSED",
        "c": "FAILED",
        "t.js::d": "SKIPPED",
    }
    inline = f"log: {json.dumps(mocha)}"
    assert STRUCTURED["mocha_report"](inline) == {}, "a report begins a line; within one it is somebody's message"


def test_gtest_json():
    report = {"testsuites": [{"name": "S", "testsuite": [
        {"name": "Ok", "status": "RUN", "result": "COMPLETED", "classname": "S"},
        {"name": "Bad", "status": "RUN", "result": "COMPLETED", "classname": "S", "failures": [{"failure": "x"}]},
        {"name": "Off", "status": "NOTRUN", "result": "SUPPRESSED", "classname": "S"},
    ]}]}  # fmt: skip
    assert STRUCTURED["gtest_json"](json.dumps(report)) == {"S::Ok": "PASSED", "S::Bad": "FAILED", "S::Off": "SKIPPED"}


LINES: dict[str, tuple[str, dict[str, str]]] = {
    "pytest_lines": (
        "a.py::t PASSED [ 50%]\na.py::u[x - y] FAILED      [100%]\na.py::s SKIPPED (no net) [100%]\n"
        "PASSED a.py::C::v[a b]\nFAILED a.py::w - E - x\nERROR a.py::e - boom\nPASSED a.py::w\nPASSED no node\n",
        {
            "a.py::t": "PASSED",
            "a.py::u[x - y]": "FAILED",
            "a.py::s": "SKIPPED",
            "a.py::C::v[a b]": "PASSED",
            "a.py::w": "FAILED",
            "a.py::e": "ERROR",
        },
    ),
    "nextest_lines": (
        "    Starting 4 tests\n        PASS [   0.005s] demo tests::a\n   \x1b[31mFAIL\x1b[0m [ 0.1s] demo::it b\n"
        "        SKIP [         ] demo tests::c\n  TRY 1 FAIL [   0.004s] demo tests::d\n"
        "  TRY 2 PASS [   0.004s] demo tests::d\n     SIGSEGV [   0.1s] demo tests::e\n",
        {
            "demo tests::a": "PASSED",
            "demo::it b": "FAILED",
            "demo tests::c": "SKIPPED",
            "demo tests::d": "PASSED",
            "demo tests::e": "FAILED",
        },
    ),
    "libtest_json": (
        '{"type":"test","event":"started","name":"a"}\n{"type":"test","name":"a","event":"ok"}\n'
        '{"type":"test","event":"started","name":"b"}\n{"type":"suite","event":"failed"}\n'
        '{"type":"test","name":"c","event":"ignored"}\n{"type":"test","name":"d","event":"failed"}\n',
        {"a": "PASSED", "b": "FAILED", "c": "SKIPPED", "d": "FAILED"},
    ),
    "tap_points": (
        "TAP version 13\n# Subtest: x\n    ok 1 - inner\nok 1 - x # time=12.5ms\nnot ok 2 - y\n  ---\n"
        "  ok 9 - in yaml\n  ...\nok 3 - z # SKIP no net\nnot ok 4 - w # TODO later\nok 5\nok 6 has \\# hash\n1..6\n",
        {"x": "PASSED", "y": "FAILED", "z": "SKIPPED", "w": "XFAIL", "5": "PASSED", "has \\# hash": "PASSED"},
    ),
    "swift_lines": (
        "Test Case '-[M.C testA]' passed (0.1 seconds).\nTest Case 'C.testB' failed (0.1 seconds)\n"
        "Test Case 'C.testC' skipped (0.1 seconds)\n✔ Test \"adds two\" passed after 0.001 seconds.\n"
        "✘ Test divides() failed after 0.001 seconds with 1 issue.\n",
        {"M.C::testA": "PASSED", "C::testB": "FAILED", "C::testC": "SKIPPED", "adds two": "PASSED",
         "divides()": "FAILED"},
    ),
    "telescope_lines": (
        "  ✓ adds\n  ✗ takes\n  - waits (skipped)\nSuccess || plenary ok\nFail || plenary bad\nFailed : 2\n",
        {"adds": "PASSED", "takes": "FAILED", "waits": "SKIPPED", "plenary ok": "PASSED", "plenary bad": "FAILED"},
    ),
    "lust_lines": (
        "  adds ... ok\n  takes ... FAILED\nPASS greets\nFAIL leaves\n4 tests, 1 failure\n",
        {"adds": "PASSED", "takes": "FAILED", "greets": "PASSED", "leaves": "FAILED"},
    ),
    "mini_test_lines": (
        "tests/a.lua: oox\n\n\x1b[1;31mFAIL\x1b[0m in tests/a.lua | set | works: expected 1\nFails (1) and Notes (0)\n",
        {"tests/a.lua | set | works": "FAILED"},
    ),
    "mocha_marks": (
        "  Contract: Vault:\n    deposit\n      ✓ takes coins (12ms)\n      1) gives change\n      - later\n\n"
        "  1 passing (1s)\n  1 failing\n\n  1) Contract: Vault\n       ✓ forged below the summary\n",
        {"Vault > takes coins": "PASSED", "Vault > gives change": "FAILED", "Vault > later": "SKIPPED"},
    ),
    "bun_lines": (
        "bun test v1.1\n\nsrc/a.test.ts:\n✓ adds [0.12ms]\n(fail) math > takes [1.00ms]\n(skip) waits\n\n 1 pass\n",
        {"src/a.test.ts::adds": "PASSED", "src/a.test.ts::math > takes": "FAILED", "src/a.test.ts::waits": "SKIPPED"},
    ),
    "cppunit_lines": (
        "MathTest::adds : OK\nMathTest::takes : assertion\nOther::x: FAIL\nOther::y : ERROR\nOK (4)\n",
        {"MathTest::adds": "PASSED", "Other::x": "FAILED", "Other::y": "FAILED", "MathTest::takes": "FAILED"},
    ),
    "geos_lines": (
        "capi::GEOSBuffer: .....\ngeos::op::Overlay: [1=F].[4=F]\ngeos::op::Crash: ..[27=X]\nnote::this: is prose.\n",
        {"capi::GEOSBuffer": "PASSED", "geos::op::Overlay": "FAILED", "geos::op::Crash": "FAILED"},
    ),
    "gtest_console": (
        "[ RUN      ] S.Ok\nnoise[       OK ] S.Ok (0 ms)\n[  FAILED  ] I/P.V/1, where GetParam() = 2 (0 ms)\n"
        "[  SKIPPED ] S.Skip (0 ms)\n[  FAILED  ] 1 test, listed below:\n",
        {"S::Ok": "PASSED", "I/P::V/1": "FAILED", "S::Skip": "SKIPPED"},
    ),
    "parse_log_js_4": (
        "PASS x.js\n  group\n    ✓ one (5 ms)\n    ✕ two\n    ○ skipped three\n✔ four (0.5ms)\n✖ one (1.2ms)\n",
        {"one": "FAILED", "two": "FAILED", "skipped three": "SKIPPED", "four": "PASSED"},
    ),
    "parse_log_dart": (
        '{"type":"testStart","test":{"id":1,"name":"loading x"}}\n'
        '{"type":"testDone","testID":1,"result":"success","hidden":true}\n'
        '{"type":"testStart","test":{"id":2,"name":"g a"}}\n'
        '{"type":"testDone","testID":2,"result":"success","hidden":false}\n'
        '{"type":"testStart","test":{"id":3,"name":"g b"}}\n{"type":"testDone","testID":3,"result":"failure"}\n'
        '{"type":"testStart","test":{"id":4,"name":"g c"}}\n'
        '{"type":"testDone","testID":4,"result":"success","skipped":true}\n'
        '{"type":"testStart","test":{"id":5,"name":"g hangs"}}\n',
        {"g a": "PASSED", "g b": "FAILED", "g c": "SKIPPED", "g hangs": "FAILED"},
    ),
    "parse_java_mvn": (
        "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in org.A\n"
        "[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! - in org.B\n"
        "[WARNING] Tests run: 1, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0 s -- in org.C\n",
        {"org.A": "PASSED", "org.B": "FAILED", "org.C": "SKIPPED"},
    ),
    "parse_log_elixir": (
        "  * test adds (1.2ms) [L#4]\n  * test waits (skipped) [L#9]\n  * test takes (0.3ms) [L#12]\n\n"
        "  1) test takes (MathTest)\n",
        {"adds": "PASSED", "waits": "SKIPPED", "takes": "FAILED"},
    ),
    "parse_log_csharp": (
        "  Passed N.C.Adds [5 ms]\n  Failed N.C.Takes(x: 1) [< 1 ms]\n  Skipped N.C.Waits\nFailed!  - Failed: 1\n",
        {"N.C.Adds": "PASSED", "N.C.Takes(x: 1)": "FAILED", "N.C.Waits": "SKIPPED"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_recorded_lines(name):
    text, wanted = LINES[name]
    assert PARSERS[name](text) == wanted
    assert PARSERS[name](text.replace("\n", "\r\n")) == wanted or name in {"geos_lines", "mini_test_lines"}


def test_every_parser_has_a_test_and_can_be_asked_for_by_name():
    tested = {*LINES, "junit_xml", "go_test_json", "jest_report", "mocha_report", "gtest_json"}
    assert set(STRUCTURED) <= tested
    for name in STRUCTURED:
        assert parse_log(name, "") == {}
    for name in SWE_REBENCH:
        assert parse_log(name, "") == {}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "parser"),
    [("mocha_tap.txt", "tap_points"), ("gtest.txt", "gtest_console")],
)
def test_logs_with_a_known_truth(file, parser):
    logs = shared_dir() / "datasets" / "logs"
    rows = [json.loads(line) for line in (logs / "index.jsonl").read_text().splitlines()]
    truth = next(row["expected_status"] for row in rows if row["file"] == f"local_frameworks/{file}")
    text = (logs / "local_frameworks" / file).read_text()
    assert STRUCTURED[parser](text) == {name.replace(".", "::") if "gtest" in file else name: status
                                        for name, status in truth.items()}  # fmt: skip


@pytest.mark.shared
def test_recorded_fixtures_of_nemo_gym():
    folder = shared_dir() / "datasets" / "rows" / "nemo_gym" / "fixtures" / "swe_bench_ext"
    wanted = ["PASSED", "PASSED", "FAILED"]
    for file, parser in (("go_json.txt", "go_test_json"), ("pytest_junit.xml", "junit_xml"),
                         ("pytest_text_fuzzy.txt", "pytest_lines")):  # fmt: skip
        assert list(STRUCTURED[parser]((folder / file).read_text()).values()) == wanted


FRAGMENTS = st.sampled_from([
    "<testsuites>", "</testsuites>", "<testsuite>", "</testsuite>", '<testcase name="x"/>', "<failure/>", "{", "}",
    '{"Action":"run","Test":"T"}', '{"testResults":[', '{"stats":', '{"testsuites":', "ok 1 - ", "not ok", "# SKIP",
    "PASSED a::b", " [ 5%]", "PASS [ 0.1s] ", "Test Case '", "[       OK ] ", "Contract: ", "FAIL in ", "\n", "\r\n",
    "\x1b[31m", "\x00", "::", "\ud800", "1" * 30, "é", " ", "✓ ", '"',
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=40).map("".join)))
@example("FAIL in \r")
@example("- (skipped)")
@example("PASS \n ... ok")
def test_no_text_makes_a_parser_raise(text):
    for name, parse in PARSERS.items():
        found = parse(text)
        assert set(found.values()) <= set(STATUSES), name
        assert all(isinstance(test, str) and test for test in found), name


@pytest.mark.parametrize(
    "unit",
    [" ", "a::b PASSED (", "<testsuite>", "<testsuite></testsuite><", "✓ ", "{", '{"', "Test Case '", "\x1b[", "(1/1) ",
     "[ OK ] a.b", "ok 1 # ", "::", "[1=F]", "a ... "],
)  # fmt: skip
def test_hostile_texts_take_time_in_proportion(unit):
    """A quadratic pattern would need minutes for this."""
    text = unit * (200_000 // len(unit))
    for name, parse in PARSERS.items():
        start = time.perf_counter()
        parse(text)
        assert time.perf_counter() - start < 3.0, name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tests/test_a.py::TestA::test_x", "tests.test_a.TestA::test_x"),
        ("(2/5) test_x", "test_x"),
        ("#4 a.b", "a::b"),
        ("/testbed/src/a.test.js::full name", "src/a.test.js::full name"),
        ("/workspace/repo/m.go::T", "m::T"),
        ("t.py::x[a.b/c]", "t::x[a.b/c]"),
    ],
)
def test_ids_in_one_form(one, other):
    assert normalized(one) == normalized(other)
    assert normalized(normalized(one)) == normalized(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("test_add", "test_add_more"), ("a::TestA::x", "b::TestB::x"), ("t.py::x[a.b]", "t.py::x[a/b]"), ("a b", "a.b")],
)
def test_other_tests_stay_others(one, other):
    assert normalized(one) != normalized(other)


def test_ids_that_become_one_keep_the_failure():
    assert by_normalized({"a/b.py::x": "FAILED", "a.b::x": "PASSED"}) == {"a::b::x": "FAILED"}
