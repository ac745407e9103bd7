"""Verdicts: equal to the official package's where it has an opinion, and stricter only where that is promised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from swebench.harness.constants import EvalType, ResolvedStatus
from swebench.harness.grading import get_eval_tests_report, get_resolution_status

from swe_sdk.model.task import GradingSpec
from swe_sdk.recipes.resolve import SUITE_RAN, official_status, officially_resolved, resolve

IDS = ("a", "b", "c::t[1]", "c::t[1", "c::t[1, 2]", "c::t[", "d[x] [y", "d[x] [y]")
STATUSES = ("PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS", "ERROR:")


def spec(f2p=(), p2p=(), eval_type="pass_and_fail") -> GradingSpec:
    return GradingSpec(
        fail_to_pass=tuple(f2p), pass_to_pass=tuple(p2p), test_command="t", parser="pytest", eval_type=eval_type
    )


specs = st.builds(
    spec,
    st.lists(st.sampled_from(IDS), max_size=4),
    st.lists(st.sampled_from(IDS), max_size=4),
    st.sampled_from(["pass_and_fail", "fail_only"]),
)
runs = st.dictionaries(st.sampled_from(IDS), st.sampled_from(STATUSES), max_size=6)


@given(specs, runs)
def test_sorting_and_verdict_equal_the_official_ones(spec, statuses):
    gold = {"FAIL_TO_PASS": list(spec.fail_to_pass), "PASS_TO_PASS": list(spec.pass_to_pass)}
    official = get_eval_tests_report(statuses, gold, eval_type=EvalType(spec.eval_type))
    ours = official_status(spec, statuses, "5.x")
    assert ours == {name: official[name] for name in ours}
    assert officially_resolved(ours) == (get_resolution_status(official) == ResolvedStatus.FULL.value)


@given(specs, runs, st.sampled_from([None, 0, 1]))
def test_our_verdict_is_never_milder_and_stricter_only_by_its_rules(spec, statuses, exit_code):
    ours = resolve(spec, statuses, exit_code)
    official = officially_resolved(official_status(spec, statuses, "5.x"))
    assert official or not ours.resolved
    odd = {"XPASS", "ERROR:"} & {*ours.tests.fail_to_pass.values(), *ours.tests.pass_to_pass.values()}
    if official and spec.fail_to_pass and statuses and not odd and "exit_code_mismatch" not in ours.flags:
        assert ours.resolved
    assert bool(ours.reason) is not ours.resolved
    assert set(ours.tests.fail_to_pass) == set(spec.fail_to_pass)
    assert set(ours.tests.pass_to_pass) == set(spec.pass_to_pass)


@pytest.mark.parametrize("status", ["PASSED", "XFAIL"])
def test_passing_statuses_resolve(status):
    found = resolve(spec(["a"], ["b"]), {"a": status, "b": status, "c": "FAILED"}, 1)
    assert found.resolved
    assert (found.reason, found.flags) == ("", ())
    assert found.tests.fail_to_pass == {"a": status}


@pytest.mark.parametrize("status", ["FAILED", "ERROR", "SKIPPED", "XPASS", None])
def test_other_statuses_of_a_required_test_do_not(status):
    statuses = {"b": "PASSED", "x": "FAILED"} | ({"a": status} if status else {})
    found = resolve(spec(["a"], ["b"]), statuses, 1)
    assert not found.resolved
    assert found.reason == f"1 of 2 required tests did not pass: a {status or 'MISSING'}"
    assert found.tests.fail_to_pass == {"a": status or "MISSING"}


def test_a_skipped_test_is_no_regression_and_no_fix():
    assert resolve(spec(["a"], ["b"]), {"a": "PASSED", "b": "SKIPPED"}, 0).resolved
    assert not resolve(spec(["a"]), {"a": "SKIPPED"}, 0).resolved


def test_the_older_harness_overlooks_skipped_tests_and_knows_no_cut_ids():
    skipped = {"a": "SKIPPED"}
    assert resolve(spec(["a"]), skipped, 0, "4.1.0").resolved
    assert official_status(spec(["a"]), skipped, "4.1.0")["FAIL_TO_PASS"] == {"success": [], "failure": []}
    cut = spec(["t[a"])
    assert resolve(cut, {"t[a b]": "PASSED"}, 0).resolved
    assert not resolve(cut, {"t[a b]": "PASSED"}, 0, "4.1.0").resolved
    assert resolve(spec(["a"]), {"a": "PASSED"}, 1, "4.1.0").resolved


def test_cut_ids_are_matched_by_their_beginning_and_reported():
    found = resolve(spec(["t[(1,"]), {"t[(1, 2)]": "PASSED", "t[(1, 3)]": "XFAIL"}, 0)
    assert found.resolved
    assert found.flags == ("truncated_ids",)
    assert found.tests.fail_to_pass == {"t[(1,": "PASSED"}


def test_cut_ids_whose_candidates_disagree_are_missing():
    found = resolve(spec(["t[(1,"]), {"t[(1, 2)]": "PASSED", "t[(1, 3)]": "FAILED"}, 1)
    assert found.tests.fail_to_pass == {"t[(1,": "MISSING"}
    assert not found.resolved


def test_whole_ids_are_matched_exactly():
    statuses = {"tests/t.py::test_add_more": "PASSED", "other::tests/t.py::test_add": "PASSED", "test_add": "PASSED"}
    assert not resolve(spec(["tests/t.py::test_add"]), statuses, 0).resolved


@pytest.mark.parametrize("p2p", [(), ("b",)])
def test_a_task_without_a_fail_to_pass_test_is_never_resolved(p2p):
    found = resolve(spec([], p2p), {"b": "PASSED"}, 0)
    assert not found.resolved
    assert "no fail_to_pass test" in found.reason
    assert officially_resolved(official_status(spec([], p2p), {"b": "PASSED"}, "5.x"))


@pytest.mark.parametrize("eval_type", ["pass_and_fail", "fail_only"])
def test_a_run_that_reports_nothing_resolves_nothing(eval_type):
    found = resolve(spec(["a"], eval_type=eval_type), {}, 0)
    assert not found.resolved
    assert "no test result" in found.reason


def test_fail_only_runs_pass_what_they_do_not_name():
    task = spec(["a"], ["b"], "fail_only")
    for statuses, exit_code in (({SUITE_RAN: "PASSED"}, 1), ({"x": "FAILED"}, 1)):
        found = resolve(task, statuses, exit_code)
        assert found.resolved
        assert found.flags == ("fail_only",)
        assert found.tests.fail_to_pass == {"a": "PASSED"}
    assert not resolve(task, {"b": "FAILED"}, 1).resolved


def test_a_failing_command_without_a_failing_test_is_not_believed():
    forged = {"a": "PASSED", "b": "SKIPPED"}
    found = resolve(spec(["a"], ["b"]), forged, 1)
    assert not found.resolved
    assert found.flags == ("exit_code_mismatch",)
    assert found.reason == "the test command exited with code 1, but no test is reported as failed"
    assert resolve(spec(["a"], ["b"]), forged, None).resolved
    assert resolve(spec(["a"], ["b"]), {**forged, "unrelated": "ERROR"}, 1).resolved


def test_the_reason_stays_short():
    names = [f"tests/test_{number}.py::test" for number in range(500)]
    found = resolve(spec(names), {"x": "FAILED"}, 1)
    assert found.reason.startswith("500 of 500 required tests did not pass: tests/test_0.py::test MISSING, ")
    assert found.reason.endswith("and 497 more")
    assert len(found.reason) < 200
