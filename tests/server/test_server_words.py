"""What outcomes are called over the wire."""

from __future__ import annotations

from typing import get_args

import pytest

from swe_sdk.model.outcome import Mask, Outcome, PatchReport
from swe_sdk.model.policy import FailureKind, Stage
from swe_sdk.server.kinds import SHUTDOWN, error_kind, failure_kind
from swe_sdk.server.verdicts import Graded, held_against, verdict_of

NEMO_GYM = frozenset(
    """
    transport_unreachable transport_peer_drop transport_timeout transport_local_resource
    agent_run_error agent_request_failed agent_timeout agent_command_not_allowed
    judge_failed judge_unparseable verifier_error
    provider_unavailable provider_quota_exhausted provider_oom_killed
    session_lost session_expired session_release_failed
    cancelled kill_shaped shutdown persistence_failed cohort_incomplete
    """.split()  # noqa: SIM905 - as one reads it
)
"""The vocabulary of 0.7; names with a colon are a server's own."""


def outcome(status: str, **fields: object) -> Outcome:
    told = {"instance_id": "a", "family": "swe-bench", "status": status, "patch": PatchReport(exists=True, sha256="0")}
    return Outcome.model_validate({"reward": float(status == "resolved"), **told, **fields})


def masked(kind: FailureKind, stage: Stage = "create", reason: str = "because") -> Outcome:
    return outcome("masked", mask=Mask(kind=kind, stage=stage, reason=reason))


@pytest.mark.parametrize("kind", get_args(FailureKind))
@pytest.mark.parametrize("stage", get_args(Stage))
def test_every_mask_has_a_name_of_the_vocabulary_or_of_our_own(kind: FailureKind, stage: Stage) -> None:
    mask = Mask(kind=kind, stage=stage, reason="because")
    name = failure_kind(mask)
    assert name in NEMO_GYM or name == f"swe_sdk:{kind}"
    assert (name == "agent_timeout") is ((kind, stage) == ("timeout", "agent"))
    assert error_kind(mask) in ("sandbox", "timeout", "eval_timeout", "eval_error")


def test_names_that_readers_rely_on() -> None:
    assert failure_kind(Mask(kind="cancelled", stage="admission", reason=SHUTDOWN)) == "shutdown"
    assert failure_kind(Mask(kind="cancelled", stage="admission", reason="x")) == "cancelled"
    assert failure_kind(Mask(kind="no_space", stage="create", reason="x")) == "provider_quota_exhausted"
    assert failure_kind(Mask(kind="sandbox_lost", stage="tests", reason="x")) == "swe_sdk:sandbox_lost"
    assert error_kind(Mask(kind="timeout", stage="tests", reason="x")) == "eval_timeout"
    assert error_kind(Mask(kind="timeout", stage="create", reason="x")) == "timeout"
    assert error_kind(Mask(kind="sandbox_lost", stage="tests", reason="x")) == "sandbox"
    assert error_kind(Mask(kind="test_patch_failed", stage="test_patch", reason="x")) == "eval_error"


@pytest.mark.parametrize("graded", [outcome("resolved"), outcome("unresolved"), masked("create_failed")])
def test_masked_and_error_and_reward_go_together(graded: Outcome) -> None:
    verdict = verdict_of(Graded(graded), patch_source="metadata", task_source="loaded")
    is_masked = graded.status == "masked"
    assert verdict.reward == (1.0 if graded.status == "resolved" else 0.0)
    assert (verdict.mask_sample, verdict.eval_error) == (is_masked, is_masked)
    for told in (verdict.error_kind, verdict.failure_kind, verdict.failure_reason, verdict.mask):
        assert (told is not None) is is_masked
    assert verdict.resolved is (graded.status == "resolved")


@pytest.mark.parametrize(
    ("submission", "gold", "expected"),
    [
        ("resolved", "resolved", "resolved"),
        ("resolved", "unresolved", "resolved"),
        ("unresolved", "resolved", "unresolved"),
        ("unresolved", "unresolved", "masked"),
        ("unresolved", "masked", "unresolved"),
        ("masked", "unresolved", "masked"),
    ],
)
def test_a_zero_counts_only_where_the_gold_patch_gets_a_one(submission: str, gold: str, expected: str) -> None:
    made = {name: masked("create_failed") if name == "masked" else outcome(name) for name in (submission, gold)}
    graded = held_against(made[submission], made[gold])
    assert graded.outcome.status == expected
    assert graded.control is not None
    assert graded.control.status == gold
    if (submission, gold) == ("unresolved", "unresolved"):
        assert graded.outcome.mask is not None
        assert graded.outcome.mask.kind == "invalid_task"
