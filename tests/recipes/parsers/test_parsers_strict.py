"""What the strict parsers make of printed lines, runs that were cut off, and reports that disagree."""

from __future__ import annotations

import pytest

from swe_sdk.recipes.parsers import parse_log

GTEST = "[ RUN      ] {0}\n[{1}] {0} ({2} ms)\n"
OK, BAD, SKIP = "       OK ", "  FAILED  ", "  SKIPPED "

CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "go: not announced": ("go_test", "--- PASS: A (0.00s)\n--- FAIL: B (0.00s)\n", {"B": "FAILED"}),
    "go: cut off": ("go_test", "=== RUN   A\n=== RUN   B\n--- PASS: A (0.00s)\n", {"A": "PASSED", "B": "ERROR"}),
    "go: in two packages": (
        "go_test",
        "=== RUN   A\n--- FAIL: A (0.10s)\nFAIL\n=== RUN   A\n--- PASS: A (0.00s)\nok  \tb\t0.1s\n",
        {"A": "FAILED"},
    ),
    "go: subtests, paused and continued": (
        "go_test",
        "=== RUN   A\n=== RUN   A/b_c\n=== PAUSE A/b_c\n=== CONT  A/b_c\n--- PASS: A (0.00s)\n"
        "    --- PASS: A/b_c (0.00s)\n",
        {"A": "PASSED", "A/b_c": "PASSED"},
    ),
    "go: no result without its time": ("go_test", "=== RUN   A\n--- PASS: A\n", {"A": "ERROR"}),
    "cargo: outside of a run": ("cargo_test", "test a ... ok\n", {}),
    "cargo: after the run": (
        "cargo_test",
        "running 1 test\ntest a ... ok\ntest result: ok. 1\ntest b ... ok\n",
        {"a": "PASSED"},
    ),
    "cargo: printed pass of a failing test": (
        "cargo_test",
        "running 1 test\ntest a ... ok\ntest a ... FAILED\n\nfailures:\n\nfailures:\n    a\n\ntest result: FAILED.\n",
        {"a": "FAILED"},
    ),
    "cargo: the output of a failing test names another": (
        "cargo_test",
        "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\n    a\n\n"
        "failures:\n    b\n",
        {"a": "PASSED", "b": "FAILED"},
    ),
    "cargo: a test that should panic is listed without that": (
        "cargo_test",
        "running 1 test\ntest a - should panic ... ok\nfailures:\n\nfailures:\n    a\n",
        {"a - should panic": "FAILED"},
    ),
    "cargo: output before the verdict": ("cargo_test", "running 1 test\ntest a ... words\nmore\nok\n", {"a": "PASSED"}),
    "cargo: crash": (
        "cargo_test",
        "running 2 tests\ntest a ... ok\ntest b ... \nsignal: 11\n",
        {"a": "PASSED", "b": "ERROR"},
    ),
    "cargo: reason for ignoring, times, examples": (
        "cargo_test",
        "running 3 tests\ntest a ... ignored, slow\ntest b ... ok <0.001s>\ntest src/lib.rs - f (line 3) ... ok\n",
        {"a": "SKIPPED", "b": "PASSED", "src/lib.rs - f (line 3)": "PASSED"},
    ),
    "gtest: not the running test": (
        "gtest",
        "[ RUN      ] S.A\n[       OK ] S.B (0 ms)\n[       OK ] S.A (0 ms)\n",
        {"S.A": "PASSED"},
    ),
    "gtest: crash": (
        "gtest",
        GTEST.format("S.A", OK, 0) + "[ RUN      ] S.B\nSegmentation fault\n",
        {"S.A": "PASSED", "S.B": "ERROR"},
    ),
    "gtest: listed as failed": ("gtest", GTEST.format("S.A", OK, 0) + "[  FAILED  ] S.A\n", {"S.A": "FAILED"}),
    "gtest: two programs at once": (
        "gtest",
        "1: [ RUN      ] S.A\n2: [ RUN      ] S.B\n1: [       OK ] S.A (1 ms)\n2: [  SKIPPED ] S.B (0 ms)\n",
        {"S.A": "PASSED", "S.B": "SKIPPED"},
    ),
    "gtest: announced by a child process too": (
        "gtest",
        "[ RUN      ] S.A\n" + GTEST.format("S.A", OK, 3),
        {"S.A": "PASSED"},
    ),
    "gtest: the next test begins without a result": (
        "gtest",
        "[ RUN      ] S.A\n" + GTEST.format("S.B", OK, 3),
        {"S.A": "ERROR", "S.B": "PASSED"},
    ),
    "doctest: warnings do not fail": (
        "doctest_xml",
        '<doctest a="b"><TestCase name="t"><Expression success="false" type="WARN"/><Message type="WARNING"/>'
        '<OverallResultsAsserts test_case_success="true"/></TestCase></doctest>',
        {"t": "PASSED"},
    ),
    "doctest: exceptions and messages do": (
        "doctest_xml",
        '<doctest a="b"><TestCase name="t"><SubCase name="a"><Exception crash="false">x</Exception></SubCase>'
        '<SubCase name="b"><Message type="ERROR"/></SubCase><OverallResultsAsserts test_case_success="false"/>'
        "</TestCase></doctest>",
        {"t > a": "FAILED", "t > b": "FAILED"},
    ),
    "doctest: nested subcases, run once for each": (
        "doctest_xml",
        '<doctest a="b"><TestCase name="t"><SubCase name="a"><SubCase name="x"/></SubCase><SubCase name="a">'
        '<SubCase name="y"><Expression success="false" type="CHECK"/></SubCase></SubCase>'
        '<OverallResultsAsserts test_case_success="false"/></TestCase></doctest>',
        {"t > a > x": "PASSED", "t > a > y": "FAILED"},
    ),
    "doctest: failed outside of its subcases": (
        "doctest_xml",
        '<doctest a="b"><TestCase name="t"><SubCase name="a"/><Expression success="false" type="CHECK"/>'
        '<OverallResultsAsserts test_case_success="false"/></TestCase></doctest>',
        {"t > a": "PASSED", "t": "FAILED"},
    ),
    "doctest: cut off": (
        "doctest_xml",
        '<doctest a="b"><TestCase name="t"><OverallResultsAsserts test_case_success="true"/></TestCase>'
        '<TestCase name="u"><SubCase name="a">',
        {"t": "PASSED", "u": "ERROR"},
    ),
    "doctest: skipped": (
        "doctest_xml",
        '<doctest a="b"><TestCase name="t" skipped="true"/></doctest>',
        {"t": "SKIPPED"},
    ),
    "jest: only below a file": ("jest_verbose", "    ✓ a (1 ms)\nPASS a.test.js\n  ✓ b\n\n  ✓ c\n", {"b": "PASSED"}),
    "jest: nested suites and a second file": (
        "jest_verbose",
        "PASS a.test.js (5.1 s)\n  s\n    ✓ a\n    t\n      ✓ b\n  u\n    ✓ c\n\nFAIL b.test.js\n  s\n    ✕ a (2 ms)\n",
        {"s > a": "FAILED", "s > t > b": "PASSED", "u > c": "PASSED"},
    ),
    "jest: a report of a failure": (
        "jest_verbose",
        "FAIL a.test.js\n  s\n    ✓ a\n\n  ● s \u203a a\n",
        {"s > a": "FAILED"},
    ),
    "jest: a file that cannot be run": (
        "jest_verbose",
        "FAIL src/a.test.js\n  ● Test suite failed to run\n\n    SyntaxError\n",
        {"src/a.test.js": "FAILED"},
    ),
    "vitest: printed lines": (
        "vitest_verbose",
        "✓ a.js > b\n  ✓ a.js > c\n ✓ a.js (3 tests) 5ms\n ✓ a.js > d 5ms\n",
        {"a.js > d": "PASSED"},
    ),
    "vitest: a report of a failure": ("vitest_verbose", " ✓ a.js > b\n FAIL  a.js > b\n", {"a.js > b": "FAILED"}),
    "vitest: a skipped test": ("vitest_verbose", " ↓ a.js > s > b [skipped]\n", {"a.js > s > b": "SKIPPED"}),
    "tap: out of order": (
        "tap_strict",
        "ok 1 a\nok 7 b\nok 2 c\nnot ok 9 d\n",
        {"a": "PASSED", "c": "PASSED", "d": "FAILED"},
    ),
    "tap: a second program": (
        "tap_strict",
        "1..2\nok 1 - a\nok 2 - b\n1..1\nok 1 - c\n",
        {"a": "PASSED", "b": "PASSED", "c": "PASSED"},
    ),
    "tap: directives": (
        "tap_strict",
        "ok 1 a # skip why\nnot ok 2 b # TODO later\nok 3 c # todo\nok 4 d # 3\nnot ok 5 e # SKIP x\n",
        {"a": "SKIPPED", "b": "XFAIL", "c": "SKIPPED", "d # 3": "PASSED", "e": "FAILED"},
    ),
    "tap: indented and after the end": (
        "tap_strict",
        "    ok 1 a\nok 1 b\nBail out! no disk\nok 2 c\n",
        {"b": "PASSED"},
    ),
    "phpunit: a namespace, times, other marks": (
        "phpunit_testdox",
        "\nMath (Tests\\Math)\n ✔ Adds [0.01 ms]\n ∅ Later\n ☢ Odd\n ⚠ Warned\n",
        {"Math > Adds": "PASSED", "Math > Later": "SKIPPED", "Math > Odd": "PASSED", "Math > Warned": "PASSED"},
    ),
    "phpunit: two classes, and what tests print": (
        "phpunit_testdox",
        "\nA\n ✔ One\nprinted\n ✔ Two\n\nB\n ✘ One\n   │\n   │ why\n\n ✔ Two\n",
        {"A > One": "PASSED", "A > Two": "PASSED", "B > One": "FAILED", "B > Two": "PASSED"},
    ),
    "phpunit: the summary has the last word": (
        "phpunit_testdox",
        "\nA\n ✔ One\n\nSummary of non-successful tests:\n\nA\n ✘ One\n",
        {"A > One": "FAILED"},
    ),
    "minitest: output before the verdict": (
        "minitest_verbose",
        "TestA#test_b = words\nmore 0.01 s = .\n",
        {"TestA#test_b": "PASSED"},
    ),
    "minitest: equal signs and spaces in names": (
        "minitest_verbose",
        "my thing#test_0001_x = 3 = 0.00 s = F\n",
        {"my thing#test_0001_x = 3": "FAILED"},
    ),
    "minitest: a report of a failure": (
        "minitest_verbose",
        "TestA#test_b = 0.00 s = .\n\n  1) Failure:\nTestA#test_b [a.rb:4]:\nno\n",
        {"TestA#test_b": "FAILED"},
    ),
    "minitest: cut off": ("minitest_verbose", "TestA#test_b = ", {"TestA#test_b": "ERROR"}),
    "testunit: nested, pending, cut off": (
        "testunit_verbose",
        "TestA: \n  TestB: \n    test_a:\t\t.: (0.1)\n    test_b:\t\tP\n===\n    test_c:\t\t",
        {"test_a": "PASSED", "test_b": "SKIPPED", "test_c": "ERROR"},
    ),
    "rspec: only at the end of a line": (
        "rspec_status",
        "a - passed\nb - failed x\nc - pending\n",
        {"a": "PASSED", "c": "SKIPPED"},
    ),
    "rspec: two of one name": ("rspec_status", "a - failed\na - passed\n", {"a": "FAILED"}),
    "mocha: nested, pending, after the summary": (
        "mocha_spec",
        "  s\n    ✔ a (5ms)\n    t\n      - b\n      1) c\n  ✔ d\n\n  3 passing (9ms)\n\n  1) s\n       ✔ x\n",
        {"s.a": "PASSED", "s.t.b": "SKIPPED", "s.t.c": "FAILED", "d": "PASSED"},
    ),
    "mocha: numbers that are no failures": (
        "mocha_failures",
        "  1) a\n       b:\n  1 failing\n  1) c\n       d:\n     Error\n",
        {"c d": "FAILED"},
    ),
    "ctest: kinds of failure": (
        "ctest",
        "    Start 1: a\n1/5 Test #1: a .....   Passed    0.01 sec\n2/5 Test #2: b .....***Timeout   1.50 sec\n"
        "3/5 Test #3: c .....***Exception: SegFault  0.10 sec\n4/5 Test #4: d .....***Not Run (Disabled)   0.00 sec\n"
        "5/5 Test #5: e e ...***Not Run   0.00 sec\n    Start 6: f\n",
        {"a": "PASSED", "b": "FAILED", "c": "FAILED", "d": "SKIPPED", "e e": "ERROR", "f": "ERROR"},
    ),
    "ctest: repeated until it passes": (
        "ctest",
        "1/1 Test #1: a .....***Failed    0.01 sec\n1/1 Test #1: a .....   Passed    0.01 sec\n",
        {"a": "FAILED"},
    ),
}


@pytest.mark.parametrize(("name", "log", "expected"), CASES.values(), ids=CASES.keys())
def test_case(name: str, log: str, expected: dict[str, str]):
    assert parse_log(name, log) == expected
    assert parse_log(name, log.replace("\n", "\r\n")) == expected
