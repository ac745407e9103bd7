"""The strict parsers of Python's runners: on every shared log what the run itself counted, and what others counted."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import parser_corpus
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parser_corpus import Log

from swe_sdk.recipes.parsers import decode_log, lenient_section, parse_log
from swe_sdk.recipes.parsers.registry import PREFIX, PYTHON, PYTHON_STRICT
from swe_sdk.recipes.parsers.text import plain_lines

LOGS = [log for log in parser_corpus.all_logs() if "timeout" not in str(log.path)]
COUNTED = parser_corpus.counted()
_COUNTS = re.compile(r"=+ (.*\b(?:passed|failed|errors?)\b.* in .*s(?:econds)?\b.*?) =+")
_RAN = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)
_FINISHED = re.compile(r"tests finished: ([^,]+(?:,\s[^,]+)*?),\sin ")


def section_of(log: Log) -> str:
    return lenient_section(decode_log(log.data())).text


def strict_of(parser: str) -> str:
    return PYTHON_STRICT[parser.removeprefix(PREFIX)]


def numbers(text: str) -> Counter[str]:
    """``3 passed, 1 xfailed in 2s`` as a counter."""
    parts = (part.split(None, 1) for part in re.split(r",\s", text.partition(" in ")[0]))
    return Counter({part[1]: int(part[0]) for part in parts if len(part) == 2 and part[0].isdigit()})


def test_every_official_python_parser_has_a_strict_one() -> None:
    assert set(PYTHON_STRICT) == set(PYTHON)
    assert set(PYTHON_STRICT.values()) == {"pytest_strict", "sympy_strict", "unittest"}


# -- truth by construction -------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize("row", [pytest.param(row, id=row["path"].stem) for row in COUNTED])
def test_the_counts_that_are_known_of_a_log(row: dict[str, Any]) -> None:
    """Where the known counts are not those of the run, the documentation says why (see ``test_parsers_docs.py``)."""
    text = lenient_section(decode_log(row["path"].read_bytes())).text
    found = Counter(parse_log(strict_of(row["framework"]), text).values())
    known = {**row["expected_counts"], **parser_corpus.OTHERWISE_COUNTED.get(row["path"].name, {})}
    told = {
        "total": found.total() - found["XFAIL"],
        "failed_or_error": found["FAILED"] + found["ERROR"] * ("errors" not in known),
        "errors": found["ERROR"],
    }
    assert {name: told[name] for name in known} == known


@pytest.mark.shared
def test_every_count_is_looked_at() -> None:
    parser_corpus.need(parser_corpus.datasets(), "the shared data")
    assert len(COUNTED) == 18
    assert set(parser_corpus.OTHERWISE_COUNTED) <= {row["path"].name for row in COUNTED}


# -- what the run says itself ----------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.parametrize(
    "log", parser_corpus.as_params([log for log in LOGS if strict_of(log.parser) == "pytest_strict"])
)
def test_as_many_tests_as_pytest_counted(log: Log) -> None:
    text = section_of(log)
    lines = plain_lines(text)
    counts = [numbers(line.strip("= ")) for line in lines if _COUNTS.fullmatch(line.rstrip())]
    statuses = parse_log("pytest_strict", text)
    if not counts or "sphinx_output" in log.path.name:
        pytest.skip("the run was cut off, or does not name its tests")
    last, found = counts[-1], Counter(statuses.values())
    errors = last["error"] + last["errors"]
    assert (found["PASSED"], found["FAILED"]) == (last["passed"] + last["xpassed"], last["failed"])
    assert found["XFAIL"] == last["xfailed"]
    assert errors - log.path.name.startswith("astropy__astropy-6938") == found["ERROR"], "one breaks twice there"


@pytest.mark.shared
@pytest.mark.parametrize(
    "log", parser_corpus.as_params([log for log in LOGS if strict_of(log.parser) == "sympy_strict"])
)
def test_as_many_tests_as_sympy_counted(log: Log) -> None:
    text = section_of(log)
    finished = _FINISHED.search(text)
    if finished is None:
        pytest.skip("the run was cut off")
    told, found = numbers(finished[1].replace("\n", " ")), Counter(parse_log("sympy_strict", text).values())
    assert found["PASSED"] == told["passed"]
    assert found["FAILED"] == told["failed"]
    assert found["ERROR"] == told["exceptions"]
    assert found["SKIPPED"] == told["skipped"]
    assert found["XFAIL"] == told["expected to fail"] + told["expected to fail but passed"]


@pytest.mark.shared
@pytest.mark.parametrize("log", parser_corpus.as_params([log for log in LOGS if strict_of(log.parser) == "unittest"]))
def test_as_many_tests_as_unittest_counted(log: Log) -> None:
    text = section_of(log)
    ran = _RAN.findall(text)
    if len(ran) != 1:
        pytest.skip("the run was cut off, or was several")
    assert len(parse_log("unittest", text)) <= int(ran[0]), "two tests of one name are one"


# -- quirks ----------------------------------------------------------------------------------------------------------

HEAD = "===== test session starts =====\ncollected 9 items\n\n"
CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "a message is no part of an id": (
        "pytest_strict",
        f"{HEAD}===== short test summary info =====\nFAILED a.py::t[x - y] - Boom: [1] - 2\nPASSED a.py::u - not\n"
        "===== 1 failed, 1 passed in 0.1s =====\n",
        {"a.py::t[x - y]": "FAILED", "a.py::u": "PASSED"},
    ),
    "results as they come": (
        "pytest_strict",
        f"{HEAD}a.py::t PASSED       [ 50%]\na.py::u[b c] SKIPPED (why not) [100%]\n\n===== 1 passed in 0.1s =====\n",
        {"a.py::t": "PASSED", "a.py::u[b c]": "SKIPPED"},
    ),
    "workers": (
        "pytest_strict",
        f"{HEAD}[gw1] [ 50%] PASSED a.py::t \n[gw0] [100%] FAILED a.py::u \n===== FAILURES =====\n",
        {"a.py::t": "PASSED", "a.py::u": "FAILED"},
    ),
    "printed lines": (
        "pytest_strict",
        f"PASSED a.py::early\n{HEAD}a.py::t FAILED\n===== FAILURES =====\nPASSED a.py::t\na.py::t PASSED\n"
        "===== short test summary info =====\nFAILED a.py::t\n===== 1 failed in 0.1s =====\nPASSED a.py::late\n",
        {"a.py::t": "FAILED"},
    ),
    "a session within a test": (
        "pytest_strict",
        f"{HEAD}a.py .F [100%]\n===== FAILURES =====\n{HEAD}x.py::inner PASSED\n===== short test summary info =====\n"
        "PASSED x.py::inner\n===== 1 passed in 0.1s =====\n===== short test summary info =====\n"
        "PASSED a.py::t\nFAILED a.py::u\n===== 1 failed, 1 passed in 0.2s =====\n",
        {"a.py::t": "PASSED", "a.py::u": "FAILED"},
    ),
    "a summary of a session within a test is not the run's": (
        "pytest_strict",
        f"{HEAD}a.py .. [100%]\n===== PASSES =====\n{HEAD}x.py .\n===== short test summary info =====\nPASSED x.py::i\n"
        "===== 1 passed in 0.1s =====\n===== 2 passed in 0.2s =====\n",
        {"a.py": "PASSED"},
    ),
    "whole files": (
        "pytest_strict",
        f"{HEAD}a.py ..s [ 30%]\nb.py ..F [ 60%]\nc.py ss\nd.py xx\ne.py .F\n===== short test summary info =====\n"
        "FAILED e.py::t\n===== 3 failed in 1s =====\n",
        {"a.py": "PASSED", "b.py": "FAILED", "c.py": "SKIPPED", "d.py": "XFAIL", "e.py::t": "FAILED"},
    ),
    "a test and its teardown, counts of skips, a file that cannot be read": (
        "pytest_strict",
        f"{HEAD}===== short test summary info =====\nSKIPPED [2] a.py:3: why\nPASSED a.py::t\nERROR a.py::t - boom\n"
        "ERROR b.py - ImportError: [x] - y\nXPASS a.py::x\nXFAIL a.py::f\n===== 1 passed, 2 errors in 1s =====\n",
        {"a.py::t": "FAILED", "b.py": "ERROR", "a.py::x": "PASSED", "a.py::f": "XFAIL"},
    ),
    "colours": (
        "pytest_strict",
        f"{HEAD}\x1b[36m\x1b[1m===== short test summary info =====\x1b[0m\n\x1b[31mFAILED\x1b[0m a.py::\x1b[1mt[1m]"
        "\x1b[0m - x\n\x1b[31m===== \x1b[1m1 failed\x1b[0m in 1s =====\x1b[0m\n",
        {"a.py::t[1m]": "FAILED"},
    ),
    "sympy: two files, the last tests of them, verdicts behind warnings": (
        "sympy_strict",
        "a/test_x.py[3] \ntest_a ok\ntest_b /x.py:3: Warning: y\n  z\nok\ntest_c f  [OK]\n\nb/test_y.py[2] \n"
        "test_a F\ntest_d ok       [FAIL]\n",
        {
            **{"a/test_x.py:test_a": "PASSED", "a/test_x.py:test_b": "PASSED", "a/test_x.py:test_c": "XFAIL"},
            **{"b/test_y.py:test_a": "FAILED", "b/test_y.py:test_d": "PASSED"},
        },
    ),
    "sympy: marks, and a file that cannot be read": (
        "sympy_strict",
        "a/test_x.py[3] ..s    [OK]\nb/test_y.py[2] .F [FAIL]\nc/test_z.py[0] Traceback (most recent):\n ok\n",
        {"a/test_x.py": "PASSED", "b/test_y.py": "FAILED", "c/test_z.py": "ERROR"},
    ),
    "sympy: reports at the end": (
        "sympy_strict",
        "a/test_x.py[2] \ntest_a E\ntest_b ok [FAIL]\n____ a/test_x.py:test_a ____\n____ a/test_x.py:test_b ____\nok\n"
        "____ slowest tests ____\ntest_a - Took 3 seconds\ntest_q ok\n",
        {"a/test_x.py:test_a": "ERROR", "a/test_x.py:test_b": "FAILED"},
    ),
    "sympy: cut off": ("sympy_strict", "a/test_x.py[2] \ntest_a ok\ntest_b ", {
        "a/test_x.py:test_a": "PASSED", "a/test_x.py:test_b": "ERROR",
    }),
}  # fmt: skip


@pytest.mark.parametrize(("name", "log", "expected"), CASES.values(), ids=CASES.keys())
def test_case(name: str, log: str, expected: dict[str, str]) -> None:
    assert parse_log(name, log) == expected
    assert parse_log(name, log.replace("\n", "\r\n")) == expected


PIECES = st.sampled_from(
    [
        *("===== test session starts =====\n", "===== short test summary info =====\n", "===== 1 passed in 1s =====\n"),
        *(
            "PASSED a.py::t",
            "a.py::t[x] FAILED",
            " - ",
            "[",
            "]",
            "\n",
            "a.py .F",
            "[gw0] [ 1%] PASSED ",
            "(",
            ")",
            " ",
        ),
        *("a.py[2] ", "test_a", " ok", "F", " [OK]", "____ a.py:test_a ____", "SKIPPED [1] ", "\x1b[1m", "=" * 9),
    ]
) | st.text(max_size=5)


@given(st.lists(PIECES, max_size=40).map("".join))
def test_no_text_is_too_strange(log: str) -> None:
    for name in ("pytest_strict", "sympy_strict"):
        assert set(parse_log(name, log).values()) <= {"PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL"}


@pytest.mark.parametrize(
    "line", ["a.py::" + " PASSED" * 40_000, "PASSED a.py::t" + " - [" * 60_000, "== " * 90_000, "a.py ." * 50_000,
             "a.py[1] " + "ok " * 90_000, "test_a " + "F " * 90_000, "____ " * 50_000]
)  # fmt: skip
def test_time_is_linear_in_the_length_of_a_line(line: str) -> None:
    import time

    start = time.process_time()
    for name in ("pytest_strict", "sympy_strict"):
        parse_log(name, f"{HEAD}{line}\n===== short test summary info =====\n{line}\n")
    assert time.process_time() - start < 2
