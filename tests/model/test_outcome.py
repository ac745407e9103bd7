"""An outcome is a measurement or it is masked, and its reward says the same as its status."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from pydantic import ValidationError

from swe_sdk.model.exec_result import ExecResult
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, TestReport

MASK = Mask(kind="sandbox_lost", stage="tests", reason="it died", retryable=True)
PATCH = PatchReport(exists=True, applied=True, rung="git apply", sha256="0" * 64)


def outcome(**changes: Any) -> Outcome:
    fields = {"instance_id": "x", "family": "f", "status": "unresolved", "reward": 0.0, "patch": PATCH}
    return Outcome(**{**fields, **changes})


def test_status_mask_and_reward_agree_or_there_is_no_outcome() -> None:
    allowed = {("resolved", 1.0, False), ("unresolved", 0.0, False), ("masked", 0.0, True)}
    rewards = (0.0, 1.0, 0.5, -1.0, float("nan"), float("inf"))
    for status, reward, masked in itertools.product(("resolved", "unresolved", "masked"), rewards, (False, True)):
        fields = {"status": status, "reward": reward, "mask": MASK if masked else None}
        if (status, reward, masked) in allowed:
            made = outcome(**fields)
            assert made.resolved == (status == "resolved")
            assert made.masked == masked
        else:
            with pytest.raises(ValidationError):
                outcome(**fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "passed"},
        {"reward": None},
        {"patch": None},
        {"surprise": 1},
        {"mask": {"kind": "bad_luck", "stage": "tests", "reason": ""}},
        {"mask": {"kind": "timeout", "stage": "lunch", "reason": ""}},
    ],
)
def test_malformed_outcomes_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        outcome(**changes)


def test_json_has_the_promised_shape_and_comes_back() -> None:
    made = outcome(
        status="masked",
        mask=MASK,
        tests=TestReport(fail_to_pass={"t::a[\u2028é]": "PASSED"}, pass_to_pass={"t::b": "MISSING"}),
        timings_s={"tests": 1.5},
        key="k",
    )
    plain = json.loads(made.model_dump_json())
    assert {"instance_id", "status", "reward", "mask", "tests", "patch", "timings_s", "key"} <= set(plain)
    assert set(plain["mask"]) == {"kind", "stage", "reason", "retryable", "evidence"}
    assert set(plain["tests"]) == {"fail_to_pass", "pass_to_pass"}
    assert {"exists", "applied", "rung", "sha256"} <= set(plain["patch"])
    assert Outcome.model_validate(plain) == made


def test_counts_are_of_required_tests() -> None:
    tests = TestReport(
        fail_to_pass={"a": "PASSED", "b": "XFAIL", "c": "FAILED"}, pass_to_pass={"d": "MISSING", "e": "SKIPPED"}
    )
    assert outcome(tests=tests).counts == "F2P 2/3  P2P 0/2"
    assert outcome().counts == "F2P 0/0  P2P 0/0"


@pytest.mark.parametrize(
    ("fields", "summary", "ok"),
    [
        ({"status": "exited", "exit_code": 0}, "exited with code 0", True),
        ({"status": "exited", "exit_code": 3}, "exited with code 3", False),
        ({"status": "exited", "exit_code": -9}, "was ended by SIGKILL", False),
        ({"status": "exited", "exit_code": -63}, "was ended by signal 63", False),
        ({"status": "timeout", "duration_s": 2.04}, "timed out after 2.0 s", False),
        ({"status": "oom"}, "ran out of memory", False),
        ({"status": "lost"}, "was lost with its sandbox", False),
    ],
)
def test_a_result_says_how_it_ended(fields: dict[str, Any], summary: str, ok: bool) -> None:
    from swe_sdk.errors import CommandFailed

    result = ExecResult(**fields, stdout_bytes=b"out \xff", stderr_bytes=b"")
    assert result.summary == summary
    assert result.ok == ok
    assert result.stdout == "out \ufffd"
    assert not result.truncated
    if ok:
        assert result.check() is result
    else:
        with pytest.raises(CommandFailed, match="out"):
            result.check()


def test_cut_output_is_said_to_be_cut() -> None:
    assert ExecResult(status="exited", exit_code=0, stderr_dropped_bytes=1).truncated
    result = ExecResult(status="exited", exit_code=0, stdout_bytes=b"\xff\0")
    assert ExecResult.model_validate_json(result.model_dump_json()) == result
