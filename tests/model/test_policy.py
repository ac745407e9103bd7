"""The table decides every failure of every stage, and can be changed line by line."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from swe_sdk.errors import InputError
from swe_sdk.model.policy import (
    DECISIONS,
    DEFAULT_POLICY,
    NEMO_GYM_0_7_POLICY,
    NEMO_GYM_POLICY,
    Decision,
    FailureKind,
    Policy,
    Stage,
    get_policy,
)

POLICIES = (DEFAULT_POLICY, NEMO_GYM_POLICY, NEMO_GYM_0_7_POLICY)
ALL = list(itertools.product(get_args(Stage), get_args(FailureKind)))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_every_failure_of_every_stage_is_decided(policy: Policy) -> None:
    assert len(ALL) == len(get_args(Stage)) * len(get_args(FailureKind)) > 15 * 29
    for stage, kind in ALL:
        decision = policy.decide(stage, kind)
        assert decision.verdict in ("masked", "unresolved", "grade", "masked_if_resolved")
        assert decision.verdict == "masked" or not decision.retryable, "a measurement is not repeated"


def test_only_what_the_submission_did_is_no_mask() -> None:
    """Everything else was found outside the graded program, and is a mask."""
    lenient = {pair: DEFAULT_POLICY.decide(*pair).verdict for pair in ALL}
    assert {pair: verdict for pair, verdict in lenient.items() if verdict != "masked"} == {
        ("agent", "budget_spent"): "grade",
        ("agent", "timeout"): "grade",
        ("agent", "step_limit"): "grade",
        ("agent", "context_window"): "grade",
        ("agent", "agent_failed"): "grade",
        ("agent", "memory_limit"): "unresolved",
        ("close_agent", "memory_limit"): "unresolved",
        ("close_agent", "patch_unavailable"): "unresolved",
        ("apply", "patch_unappliable"): "unresolved",
        ("tests", "timeout"): "unresolved",
        ("tests", "memory_limit"): "unresolved",
        ("tests", "disk_limit"): "unresolved",
        ("tests", "runner_files"): "unresolved",
        ("parse", "results_disagree"): "unresolved",
        ("parse", "unparseable"): "unresolved",
    }


def test_new_attempts_are_for_what_may_go_away() -> None:
    retryable = {kind for stage, kind in ALL if DEFAULT_POLICY.decide(stage, kind).retryable}
    assert retryable == {
        "cancelled", "create_failed", "host_oom", "no_space", "sandbox_lost", "timeout", "transfer_failed",
        "model_failed", "model_unreachable", "verifier_unreachable", "lost_worker",
    }  # fmt: skip


def differing(policy: Policy, other: Policy) -> dict[tuple[str, str], str]:
    return {pair: policy.decide(*pair).verdict for pair in ALL if policy.decide(*pair) != other.decide(*pair)}


def test_nemo_gym_masks_timeouts_and_successes_at_a_limit() -> None:
    """Its rule: ``(resolved and error in (max_iteration, context_window)) or eval_timed_out or agent_timed_out``."""
    assert differing(NEMO_GYM_POLICY, DEFAULT_POLICY) == {
        ("tests", "timeout"): "masked",
        ("agent", "timeout"): "masked",
        ("agent", "budget_spent"): "masked",
        ("agent", "step_limit"): "masked_if_resolved",
        ("agent", "context_window"): "masked_if_resolved",
    }


def test_nemo_gym_0_7_masks_limits_and_memory_as_well() -> None:
    assert differing(NEMO_GYM_0_7_POLICY, NEMO_GYM_POLICY) == {
        ("agent", "step_limit"): "masked",
        ("agent", "context_window"): "masked",
        ("agent", "memory_limit"): "masked",
        ("close_agent", "memory_limit"): "masked",
        ("tests", "memory_limit"): "masked",
    }


def test_an_override_changes_its_lines_alone() -> None:
    changed = DEFAULT_POLICY.override(
        {("tests", "timeout"): "masked", ("*", "no_space"): Decision(verdict="masked", retryable=False)}
    )
    assert changed.decide("tests", "timeout") == Decision(verdict="masked")
    assert not changed.decide("create", "no_space").retryable
    for stage, kind in ALL:
        if (stage, kind) != ("tests", "timeout") and kind != "no_space":
            assert changed.decide(stage, kind) == DEFAULT_POLICY.decide(stage, kind)
    assert DEFAULT_POLICY.decide("tests", "timeout").verdict == "unresolved", "the original is as it was"
    assert changed.name != DEFAULT_POLICY.name
    assert changed.fingerprint != DEFAULT_POLICY.fingerprint


def test_the_line_of_a_stage_goes_before_that_of_any_stage() -> None:
    policy = Policy({("*", "timeout"): Decision(verdict="grade"), ("tests", "timeout"): Decision(verdict="unresolved")})
    assert policy.decide("tests", "timeout").verdict == "unresolved"
    assert policy.decide("apply", "timeout").verdict == "grade"
    assert policy.decide("apply", "no_space").verdict == "masked", "what the table does not know is masked"


@pytest.mark.parametrize("line", [("test", "timeout"), ("tests", "time_out"), ("", ""), ("tests", "*")])
def test_a_line_that_would_never_be_looked_up_is_refused(line: Any) -> None:
    with pytest.raises(InputError, match="unknown"):
        DEFAULT_POLICY.override({line: "masked"})


def test_a_verdict_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValidationError):
        DEFAULT_POLICY.override({("tests", "timeout"): "ignore"})  # type: ignore[dict-item]


def test_policies_go_by_name() -> None:
    assert get_policy("default") is DEFAULT_POLICY
    assert get_policy("nemo_gym") is NEMO_GYM_POLICY
    assert get_policy("nemo_gym_0_7") is NEMO_GYM_0_7_POLICY
    assert get_policy(NEMO_GYM_POLICY) is NEMO_GYM_POLICY
    with pytest.raises(InputError, match="nemo_gym"):
        get_policy("strict")


def test_equal_tables_have_equal_fingerprints() -> None:
    assert Policy(dict(reversed(DECISIONS.items()))).fingerprint == DEFAULT_POLICY.fingerprint
