"""The unittest parser on output of the real program, and on the forms of older versions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swe_sdk.recipes.parsers import parse_log

SUITE = '''
import doctest, sys, unittest

class A(unittest.TestCase):
    def test_ok(self): pass
    def test_doc(self):
        """First line ... with dots.

        More."""
    def test_doc_fail(self):
        """Fails ... ok"""
        self.fail("x")
    def test_error(self): raise RuntimeError("boom")
    @unittest.skip("why 'quoted' ... ok")
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_xfail(self): self.fail("expected")
    @unittest.expectedFailure
    def test_xpass(self): pass

class Sub(unittest.TestCase):
    def test_a_fails(self):
        for i in range(4):
            with self.subTest(i=i):
                if i == 2: self.skipTest("sub skip")
                self.assertNotEqual(i, 1)
    def test_b_fails(self):
        """Doc of subtests."""
        with self.subTest("message", k="v ... ok"): raise ValueError(1)
        with self.subTest(): self.fail("no")
    def test_c_passes(self):
        with self.subTest(i=1): pass
    def test_d_skips(self):
        with self.subTest(i=1): self.skipTest("only sub")
    def test_e_after(self): pass

class Output(unittest.TestCase):
    def test_a_lines(self): sys.stderr.write("out\\nerr\\n")
    def test_b_glued(self): sys.stderr.write("no newline")
    def test_c_says_ok(self): sys.stderr.write("ok\\n"); self.fail("no")
    def test_d_glued_later(self): sys.stderr.write("one\\ntwo")
    def test_e_says_fail(self): sys.stderr.write("=" * 70 + "\\nFAIL: test_ok (%s.A.test_ok)\\n" % __name__)
    def test_f_calls(self): sys.stderr.write("call (x.y)\\nloading ... done\\n")

class TearDown(unittest.TestCase):
    def tearDown(self): raise ValueError("tear")
    def test_a_fails_too(self): self.fail("f")
    def test_b_passes(self): pass

class ClassFails(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError("class")
    def test_never(self): pass

class ClassSkips(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("class skip")
    def test_never(self): pass

@unittest.skip("whole class")
class Skipped(unittest.TestCase):
    def test_one(self): pass

class Async(unittest.IsolatedAsyncioTestCase):
    async def test_async(self): pass

def helper():
    """
    >>> 1 + 1
    2
    """

def load_tests(loader, tests, pattern):
    tests.addTests(doctest.DocTestSuite())
    return tests
'''

MODULE = """
import unittest
def setUpModule(): raise ValueError
class M(unittest.TestCase):
    def test_m(self): pass
"""

EXPECTED = {
    "A.test_ok": "PASSED",
    "A.test_doc": "PASSED",
    "A.test_doc_fail": "FAILED",
    "A.test_error": "ERROR",
    "A.test_skip": "SKIPPED",
    "A.test_xfail": "XFAIL",
    "A.test_xpass": "FAILED",
    "Sub.test_a_fails": "FAILED",
    "Sub.test_b_fails": "FAILED",
    "Sub.test_c_passes": "PASSED",
    "Sub.test_d_skips": "SKIPPED",
    "Sub.test_e_after": "PASSED",
    "Output.test_a_lines": "PASSED",
    "Output.test_b_glued": "PASSED",
    "Output.test_c_says_ok": "FAILED",
    "Output.test_d_glued_later": "PASSED",
    "Output.test_e_says_fail": "PASSED",
    "Output.test_f_calls": "PASSED",
    "TearDown.test_a_fails_too": "ERROR",
    "TearDown.test_b_passes": "ERROR",
    "Skipped.test_one": "SKIPPED",
    "Async.test_async": "PASSED",
}
FIXTURES = {
    "setUpClass (test_sample.ClassFails)": "ERROR",
    "setUpClass (test_sample.ClassSkips)": "SKIPPED",
    "setUpModule (test_module)": "ERROR",
    "test_broken (unittest.loader._FailedTest.test_broken)": "ERROR",
    "helper (test_sample)": "PASSED",
}


def _run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "unittest", *arguments]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
    )
    return done.stdout.decode()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("unittest")
    (folder / "test_sample.py").write_text(SUITE, encoding="utf-8")
    (folder / "test_broken.py").write_text("import no_such_module\n", encoding="utf-8")
    (folder / "test_module.py").write_text(MODULE, encoding="utf-8")
    return _run(folder, "-v", "test_sample", "test_broken", "test_module")


def _id(test: str) -> str:
    return f"{test.rpartition('.')[2]} (test_sample.{test})"


def test_real_output(log: str):
    assert parse_log("unittest", log) == {_id(test): status for test, status in EXPECTED.items()} | FIXTURES


def test_windows_line_ends_and_colours_change_nothing(log: str):
    expected = parse_log("unittest", log)
    assert parse_log("unittest", log.replace("\n", "\r\n")) == expected
    assert parse_log("unittest", log.replace("ok\n", "\x1b[32mok\x1b[0m\n")) == expected


def test_every_cut_log_is_a_part_of_the_whole_or_says_error(log: str):
    whole = parse_log("unittest", log)
    for end in range(0, len(log), 97):
        for test, status in parse_log("unittest", log[:end]).items():
            assert test in whole
            assert whole[test] == status or status == "ERROR" or whole[test] in ("FAILED", "ERROR")


def test_ids_agree_with_the_django_parser_where_there_is_no_docstring(log: str):
    django = parse_log("django", log)
    plain = [_id(test) for test, status in EXPECTED.items() if status == "PASSED" and test.startswith(("A", "Async"))]
    assert {test: django[test] for test in plain if "doc" not in test} == dict.fromkeys(
        [test for test in plain if "doc" not in test], "PASSED"
    )


def test_quiet_output_gives_the_failures_alone(tmp_path: Path):
    (tmp_path / "test_sample.py").write_text(SUITE, encoding="utf-8")
    found = parse_log("unittest", _run(tmp_path, "test_sample"))
    assert found[_id("A.test_doc_fail")] == "FAILED"
    assert set(found.values()) == {"FAILED", "ERROR"}


LINE = "=" * 70
DASHES = "-" * 70
OLD = f"""\
test_a_sub (m.Sub) ... test_b (m.Sub)
Docstring of b. ... ok
test_c_sub (m.Sub)
Docstring of c. ... test_d (m.Sub) ... ok
test_e (m.Sub) ... prints ok
ok
ERROR
test_f (m.Next) ... ok
skipped 'class skip'
test_g (m.Next) ... FAIL
ERROR
test_h (m.Next) ... ok
ERROR

{LINE}
ERROR: tearDownClass (m.Sub)
{DASHES}
boom

{LINE}
ERROR: test_g (m.Next)
{DASHES}
test_z (m.Printed) ... ok

{LINE}
FAIL: test_a_sub (m.Sub) (i=1)
{DASHES}
AssertionError

{LINE}
ERROR: test_c_sub (m.Sub) [why]
Docstring of c.
{DASHES}
ValueError

{LINE}
FAIL: test_g (m.Next)
{DASHES}
AssertionError

{DASHES}
Ran 8 tests in 0.001s

FAILED (failures=2, errors=3)
"""


def test_output_before_python_3_11():
    assert parse_log("unittest", OLD) == {
        "test_a_sub (m.Sub)": "FAILED",
        "test_b (m.Sub)": "PASSED",
        "test_c_sub (m.Sub)": "ERROR",
        "test_d (m.Sub)": "PASSED",
        "test_e (m.Sub)": "PASSED",
        "test_f (m.Next)": "PASSED",
        "test_g (m.Next)": "FAILED",
        "test_h (m.Next)": "PASSED",
        "tearDownClass (m.Sub)": "ERROR",
    }


def _whole(*lines: str) -> str:
    return "\n".join((*lines, "", DASHES, "Ran 1 test in 0.1s", "", "OK", ""))


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("ok", "FAIL", "FAILED"),
        ("FAIL", "ok", "FAILED"),
        ("ERROR", "ok", "FAILED"),
        ("FAIL", "ERROR", "ERROR"),
        ("ok", "skipped 'x'", "SKIPPED"),
        ("skipped ''", "ok", "PASSED"),
        ("expected failure", "unexpected success", "FAILED"),
    ],
)
def test_reports_that_differ(first: str, second: str, status: str):
    lines = [f"test_a (m.T.test_a) ... {verdict}" for verdict in (first, second)]
    expected = {"test_a (m.T.test_a)": status}
    assert parse_log("unittest", _whole(*lines)) == expected
    assert parse_log("unittest", _whole(lines[0]) + _whole(lines[1])) == expected


def test_output_glued_to_a_name_is_cut_off():
    log = _whole("test_a (m.T.test_a) ... ok", "partialtest_b (m.T.test_b) ... ok", "a bit test_c (m.T.test_c) ... ok")
    assert parse_log("unittest", log) == {f"test_{x} (m.T.test_{x})": "PASSED" for x in "abc"}


@pytest.mark.parametrize("tail", ["", "\n", "half a bo", "half a book", "one\ntwok", " ok?"])
def test_a_run_that_was_cut_leaves_its_last_test_in_error(tail: str):
    log = "test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... " + tail
    assert parse_log("unittest", log) == {"test_a (m.T.test_a)": "PASSED", "test_b (m.T.test_b)": "ERROR"}


def test_failed_import_of_a_module_in_a_package_keeps_its_name():
    name = "pkg.test_a (unittest.loader._FailedTest.pkg.test_a)"
    assert parse_log("unittest", _whole(f"{name} ... ERROR")) == {name: "ERROR"}


def test_other_output_is_not_read():
    assert parse_log("unittest", "value (a.b) ... ok\ncall (a.b)\nloading ... ok\nok\nERROR\n") == {}
