"""Where a test section begins and ends, and when its results count."""

from __future__ import annotations

import dataclasses

import pytest

from swe_sdk.recipes.parsers import TestSection, decode_log, lenient_section, official_section, parse_official_log

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
CODE = ">>>>> Test Exit Code: "


def test_a_section_lies_between_the_markers():
    section = official_section(f"before\n+ : '{START}'\nPASSED a\n+ : '{END}'\nafter {CODE}0")
    assert section == TestSection("'\nPASSED a\n+ : '", True, exit_code=0)
    assert not section.whole_log
    with pytest.raises(dataclasses.FrozenInstanceError):
        section.found = False  # type: ignore[misc]


def test_repeated_and_reversed_markers():
    assert official_section(f"{START}a{START}b{END}c").text == "a"
    assert official_section(f"{START}a{END}b{END}c").text == "a"
    assert official_section(f"{END}a{START}b").text == "b"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (">>>>> Patch Apply Failed", "patch_apply_failed"),
        (">>>>> Reset Failed", "reset_failed"),
        (">>>>> Tests Errored", "tests_errored"),
        (">>>>> Tests Timed Out after 9 seconds", "tests_timed_out"),
    ],
)
def test_a_bad_code_anywhere_makes_a_log_unreadable(code: str, reason: str):
    log = f"{START}\nPASSED a\n{END}\n{code}\n{CODE}3"
    for section in (official_section(log), lenient_section(log)):
        assert section == TestSection("", False, exit_code=3, reason=reason)  # type: ignore[arg-type]
    assert parse_official_log("pytest", log).statuses == {}


@pytest.mark.parametrize("log", ["", "PASSED a", f"{START}\nPASSED a", f"PASSED a\n{END}"])
def test_officially_both_markers_must_be_there(log: str):
    assert official_section(log) == TestSection("", False, reason="markers_missing")
    statuses, section = parse_official_log("pytest", log)
    assert (statuses, section.found) == ({}, False)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"x{START}\nPASSED a", TestSection("\nPASSED a", True, reason="end_marker_missing")),
        ("PASSED a", TestSection("PASSED a", True, whole_log=True, reason="markers_missing")),
        (
            ">>>>> Applied Patch (pred)\nReturn Code: 7\n>>>>> Applied Patch (pred)\nPASSED a\nReturn Code: 1 \n",
            TestSection("\nPASSED a\nReturn Code: 1 \n", True, exit_code=1, reason="swebench_1x"),
        ),
        (">>>>> Applied Patch (pred)", TestSection("", True, reason="swebench_1x")),
        (f"{START}x{END}", TestSection("x", True)),
    ],
)
def test_older_layouts(log: str, expected: TestSection):
    assert lenient_section(log) == expected


def test_results_outside_of_an_empty_section_are_used_and_flagged():
    statuses, section = parse_official_log("pytest", f"{START}\n{END}\nPASSED a")
    assert statuses == {"a": "PASSED"}
    assert (section.found, section.whole_log, section.reason) == (True, True, "")


@pytest.mark.parametrize(
    "sign",
    [
        "Executed 12 of 12",
        "TOTAL: 3 SUCCESS",
        "12 passing (3s)",
        "10 passing",
        "Tests:       1 failed, 2 total",
        "Test Suites: 1 failed, 20 passed, 21 total",
        "# tests 5",
        "1 spec, 0 failures",
        "rendering/case': ok",
    ],
)
def test_no_results_count_with_a_sign_of_a_run(sign: str):
    statuses, section = parse_official_log("pytest", f"{START}\n{sign}\n{END}")
    assert (statuses, section.found) == ({}, True)


@pytest.mark.parametrize(
    "sign", ["", "Executed 0 of 0", "0 passing", "# tests 0", "00 specs, 0 failures", "x': ok then"]
)
def test_no_results_do_not_count_without_one(sign: str):
    statuses, section = parse_official_log("pytest", f"{START}\n{sign}\n{END}")
    assert (statuses, section.found, section.reason) == ({}, False, "no_sign_of_a_run")


@pytest.mark.parametrize(
    ("line", "code", "found"),
    [
        ("PASSED a", 1, False),
        ("PASSED a", 0, True),
        ("FAILED a", 1, True),
        ("ERROR a", -9, True),
        ("XFAIL a", -9, False),
    ],
)
def test_an_exit_code_must_agree_with_the_results(line: str, code: int, found: bool):
    statuses, section = parse_official_log("pytest", f"{START}\n{line}\n{END}\n{CODE}{code}")
    assert (bool(statuses), section.found, section.exit_code) == (found, found, code)
    assert section.reason == ("" if found else "exit_code_contradicts_results")


def test_an_exit_code_of_thousands_of_digits_is_none():
    assert official_section(f"{START}{END}{CODE}{'9' * 5000}").exit_code is None


def test_logs_are_decoded_as_the_official_harness_reads_them():
    assert decode_log(b"a\r\nb\rc\n\xff\xc3\xa9") == "a\nb\nc\n\ufffdé"
