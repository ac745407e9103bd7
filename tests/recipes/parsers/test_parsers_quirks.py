"""Behaviour of the official parsers that expected ids rely on, one case each."""

from __future__ import annotations

import pytest
from swebench.harness.log_parsers import PARSER_REGISTRY

from swe_sdk.recipes.parsers import parse_log

CASES = {
    "skip counts are no tests": ("pytest", "SKIPPED [3] t.py:1: why\nSKIPPED t.py::a", {"t.py::a": "SKIPPED"}),
    "wrapped progress is a test": ("pytest", "PASSED [100%]", {"[100%]": "PASSED"}),
    "other counts are tests": ("pytest", "XFAIL [3]", {"[3]": "XFAIL"}),
    "a bare status word is none": ("pytest", "PASSED\nFAILED   \nERROR - ", {"-": "ERROR"}),
    "a failure message is cut off": ("pytest", "FAILED t.py::a - x - y", {"t.py::a": "FAILED"}),
    "a failure without a name gives its message": ("pytest", "FAILED - boom", {"boom": "FAILED"}),
    "ids end at a space": ("pytest", "PASSED t.py::a[b c]", {"t.py::a[b": "PASSED"}),
    "the first word is the status": ("pytest", "ERROR: file not found", {"file": "ERROR:"}),
    "xpass is not read": ("pytest", "XPASS t.py::a", {}),
    "status lines start at the margin": ("pytest", " PASSED t.py::a", {}),
    "the last line wins, in the first one's place": (
        "pytest",
        "PASSED a\nPASSED b\nFAILED a - x",
        {"a": "FAILED", "b": "PASSED"},
    ),
    "line ends are newlines only": ("pytest", "x\rPASSED a\x0bPASSED b\nPASSED c\r", {"c": "PASSED"}),
    "paths in options are cut": ("pytest_options", "PASSED t[/a/b/c]", {"t[/c]": "PASSED"}),
    "but not urls": ("pytest_options", "PASSED t[//a/b]", {"t[//a/b]": "PASSED"}),
    "nor globs": ("pytest_options", "PASSED t[/a/*]", {"t[/a/*]": "PASSED"}),
    "what follows an option is lost": ("pytest_options", "PASSED t[a]b", {"t[a]": "PASSED"}),
    "an open bracket is no option": ("pytest_options", "PASSED t[/a/b", {"t[/a/b": "PASSED"}),
    "colours are removed": ("pytest_v2", "\x1b[32mPASSED\x1b[0m t.py::\x1b[1ma\x1b[0m", {"t.py::a": "PASSED"}),
    "colours in text that is not ASCII": ("pytest_v2", "✓\n\x1b[31mFAILED\x1b[0m é - ✗", {"é": "FAILED"}),
    "older pytest puts the status last": ("pytest_v2", "t.py::a PASSED\nt.py::b[x y] FAILED", None),
    "newer ids keep spaces": ("pytest_v2", "PASSED t.py::a[b  c]", {"t.py::a[b c]": "PASSED"}),
    "tabs vanish": ("pytest_v2", "PASSED\tt.py::a", {}),
    "escapes inside a status word vanish": ("pytest_v2", "PAS\x07SED a", {"a": "PASSED"}),
    "the log of a wrapper is an error": ("pytest_v2", "ERROR conda.cli.main_run: failed.", None),
    "mouse buttons are numbers": ("matplotlib", "PASSED t[MouseButton.LEFT-MouseButton.RIGHT]", {"t[1-3]": "PASSED"}),
    "seaborn knows two statuses": (
        "seaborn",
        "PASSED a\nFAILED b - x\nSKIPPED c\nERROR d",
        {"a": "PASSED", "b": "FAILED"},
    ),
    "seaborn reads progress lines": ("seaborn", "t.py::a PASSED [ 10%]", {"t.py::a": "PASSED"}),
    "seaborn wants the status second": ("seaborn", "PASSED a PASSED b", {}),
    "sympy headings": ("sympy", "___ sympy/a.py:test_b ___\ntest_b F\ntest_c ok\ntest_d E", None),
    "sympy headings need no underscores": ("sympy", "see a.py:12 for more", {"a.py:12 for": "FAILED"}),
    "sympy lets the verdict overwrite": ("sympy", "_ test_a.py:x _\ntest_a.py:x ok", {"test_a.py:x": "PASSED"}),
    "sympy takes a verdict for a heading": (
        "sympy",
        "  test_a.py:x ok",
        {" test_a.py:x": "FAILED", "test_a.py:x": "PASSED"},
    ),
    "django ids are docstrings": ("django", "test_a (m.T)\nDoes a thing. ... ok", {"Does a thing.": "PASSED"}),
    "django shares ids between docstrings": ("django", "Same. ... ok\nSame. ... FAIL", {"Same.": "FAILED"}),
    "django takes ok in any case but one": ("django", "a ... ok\nb ... OK\nc ...  OK\nd ... Ok", None),
    "django passes the last test on a line of ok": ("django", "a ... noise\nmore\nokay then", {"a": "PASSED"}),
    "django skips": ("django", "a (m.T) ... skipped 'why ... ok'", {"a (m.T)": "SKIPPED"}),
    "django headings have the name alone": ("django", "FAIL: test_a (m.T)\nERROR: test_b (m.T)", None),
    "django reads several verdicts in a line": ("django", "a ... skipped 'x' ... ok", None),
    "django cuts the migration message": (
        "django",
        "Applying sites.0002_alter_domain_unique...test_no_migrations (m.T) ... ok",
        {"test_no_migrations (m.T)": "PASSED"},
    ),
    "django version test": ("django", "x --version is equivalent to version y", None),
    "django interrupted by the banner": (
        "django",
        "a ... Testing against Django installed in '/x' silenced).\nok",
        None,
    ),
    "django interrupted by a banner of many lines": (
        "django",
        " b ... Testing against Django installed in '/x'\nmore (0 silenced).\nok\n",
        {"b": "PASSED", " b": "PASSED"},
    ),
    "django interrupted by an error": ("django", "a ... Internal Server Error: /a/b/\nok", {"a": "PASSED"}),
    "django interrupted by a check": ("django", "a ... System check identified no issues (0 silenced)\nok", None),
}


@pytest.mark.parametrize(("name", "log", "expected"), CASES.values(), ids=CASES.keys())
def test_quirk(name: str, log: str, expected: dict[str, str] | None):
    found = parse_log(name, log)
    official = PARSER_REGISTRY[f"parse_log_{name}"](log, None)
    assert list(found.items()) == list(official.items())
    assert found == expected if expected is not None else found


@pytest.mark.parametrize("heading", ["FAIL:", "ERROR:", "FAIL:test_a", "  ERROR:  "])
def test_a_django_heading_without_a_test_is_passed_over(heading: str):
    log = f"test_a ... ok\n{heading}\ntest_b ... ERROR"
    with pytest.raises(IndexError):
        PARSER_REGISTRY["parse_log_django"](log, None)
    assert parse_log("django", log) == {"test_a": "PASSED", "test_b": "ERROR"}
