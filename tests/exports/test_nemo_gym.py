"""NeMo Gym rows: frozen fields, and nothing lost on the way there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.errors import InputError
from swe_sdk.exports import (
    NemoGymRow,
    RolloutRecord,
    nemo_gym_row,
    read_nemo_gym_rows,
    rollout_record,
    write_nemo_gym_rows,
)
from swe_sdk.exports.nemo_gym_row import FROZEN_METRICS
from swe_sdk.exports.record import Turn
from swe_sdk.model.budget import Budget
from swe_sdk.model.outcome import Mask, Outcome, PatchReport
from swe_sdk.model.patch import Patch

FROZEN = [
    "resolved",
    "patch_exists",
    "model_patch",
    "agent_error_kind",
    "agent_timed_out",
    "eval_timed_out",
    "oom_killed",
    "eval_oom_killed",
    "agent_peak_rss_mb",
    "eval_peak_rss_mb",
    "ray_queue_time",
    "openhands_run_time",
    "generation_start_timestamp",
    "evaluation_start_timestamp",
    "per_turn_metrics",
    "generation_apptainer_spinup_time",
    "create_runtime_time",
    "connect_to_runtime_time",
    "initialize_runtime_time",
    "total_command_exec_time",
    "total_model_call_time",
    "final_eval_apptainer_spinup_time",
    "final_eval_time",
]
"""Written down by hand: trainers read these names."""
VERDICT = {
    "responses_create_params": dict,
    "response": dict,
    "reward": float,
    "mask_sample": bool,
    "failure_kind": str,
    "failure_reason": str,
    "instance_id": str,
    "patch_applied": bool,
    "eval_error": bool,
    "error_kind": str,
    "instance_config": dict,
}


def record(data: bytes = b"--- a\n+++ b\n", mask: Mask | None = None, **changes: Any) -> RolloutRecord:
    patch = Patch.of(data)
    status = "masked" if mask else changes.pop("status", "resolved")
    outcome = Outcome(
        instance_id="t-1",
        family="swe-bench",
        status=status,
        reward=1.0 if status == "resolved" else 0.0,
        mask=mask,
        patch=PatchReport(exists=patch.exists, applied=True, sha256=patch.sha256),
        flags=changes.pop("flags", ()),
        evidence=changes.pop("evidence", {}),
        timings_s={"create": 0.5, "total": 9.0},
    )
    fields: dict[str, Any] = {
        "rollout_id": "t-1.2",
        "instance_id": "t-1",
        "sample": 2,
        "attempt": 3,
        "agent": "scripted",
        "problem_statement": "it <b>breaks</b>\n",
        "outcome": outcome,
        "patch": patch,
        "end_reason": "done",
        "budget": Budget(total_s=100, spent_s=12.5, parked_s=1),
        "queued_s": 0.25,
        "stages_s": {"seed": 1.0, "invoke_agent": 10.0, "verify": 2.0},
        "stages_at": {"invoke_agent": 1000.5, "verify": 1011.0},
        "turns": (
            Turn(kind="model", seconds=2.0, tokens_in=5, tokens_out=7),
            Turn(kind="action", seconds=3.0),
            Turn(kind="model", seconds=0.5, tokens_in=1, tokens_out=1),
        ),
        "config": {"agent": "scripted", "tests_timeout_s": 900.0},
    }
    return RolloutRecord(**{**fields, **changes})


MASKED = Mask(kind="sandbox_lost", stage="tests", reason="it died", retryable=True, evidence={"pid": 3})
TIMEOUT = Mask(kind="timeout", stage="tests", reason="too long")


def as_line(row: NemoGymRow) -> dict[str, Any]:
    """As another program reads it."""
    found: dict[str, Any] = json.loads(row.model_dump_json())
    return found


def test_the_frozen_fields_are_all_there_in_every_row() -> None:
    assert list(FROZEN_METRICS) == FROZEN
    for each in (record(), record(b""), record(mask=MASKED)):
        row = as_line(nemo_gym_row(each))
        assert set(FROZEN) <= set(row)
        for name, kind in VERDICT.items():
            assert row[name] is None or isinstance(row[name], kind), name
        assert isinstance(row["reward"], float)


def test_values_of_a_resolved_rollout() -> None:
    row = as_line(nemo_gym_row(record(flags=("agent_step_limit",))))
    assert (row["reward"], row["resolved"], row["mask_sample"], row["failure_kind"]) == (1.0, True, False, None)
    assert row["model_patch"] == row["response"]["metadata"]["model_patch"] == "--- a\n+++ b\n"
    assert row["responses_create_params"]["metadata"]["instance_id"] == "t-1"
    assert row["responses_create_params"]["input"][0]["content"] == "it <b>breaks</b>\n"
    assert row["agent_error_kind"] == "max_iteration"
    assert (row["total_model_call_time"], row["total_command_exec_time"]) == (2.5, 3.0)
    assert (row["openhands_run_time"], row["final_eval_time"], row["ray_queue_time"]) == (10.0, 2.0, 0.25)
    assert (row["generation_start_timestamp"], row["evaluation_start_timestamp"]) == (1000.5, 1011.0)
    assert [turn["tokens_out"] for turn in row["per_turn_metrics"]] == [7, 0, 1]
    assert row["response"]["usage"] == {"input_tokens": 6, "output_tokens": 8}
    assert row["agent_peak_rss_mb"] is None, "what was not measured is not invented"


def test_a_mask_is_never_a_plain_zero() -> None:
    row = as_line(nemo_gym_row(record(mask=MASKED)))
    assert (row["reward"], row["mask_sample"], row["eval_error"], row["error_kind"]) == (0.0, True, True, "sandbox")
    assert row["failure_kind"] == "swe_sdk:sandbox_lost"
    assert row["failure_reason"] == "it died"
    ran_out = record(status="unresolved", evidence={"failure": {"stage": "tests", "kind": "memory_limit"}})
    assert as_line(nemo_gym_row(ran_out))["eval_oom_killed"] is True
    timeout = as_line(nemo_gym_row(record(mask=TIMEOUT)))
    assert (timeout["eval_timed_out"], timeout["agent_timed_out"]) == (True, False)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"no newline", b"caf\xc3\xa9\n", b"latin \xe9\xff\n", b"a\r\nb\x00c\n", "\ufffd\n".encode()],
    ids=repr,
)
@pytest.mark.parametrize("mask", [None, MASKED])
def test_there_and_back_is_equal(data: bytes, mask: Mask | None) -> None:
    original = record(data, mask)
    assert rollout_record(as_line(nemo_gym_row(original))) == original


@given(st.binary(max_size=60))
def test_any_patch_keeps_its_bytes(data: bytes) -> None:
    original = record(data)
    assert rollout_record(as_line(nemo_gym_row(original))) == original


def test_a_file_of_rows(tmp_path: Path) -> None:
    records = [record(), record(b"\xff\n", MASKED), record(status="unresolved")]
    path = tmp_path / "rollouts.jsonl"
    assert write_nemo_gym_rows(records, path) == 3
    assert path.read_bytes().isascii()
    assert list(read_nemo_gym_rows(path)) == records
    path.write_bytes(path.read_bytes() + b'{"reward": 1.0}\n')
    with pytest.raises(InputError, match=r"rollouts\.jsonl:4: .*instance_id"):
        list(read_nemo_gym_rows(path))


def test_a_verdict_that_somebody_changed_counts() -> None:
    """As a reverification does: the reward of the row is the truth, and not what we wrote beside it."""
    row = as_line(nemo_gym_row(record(status="unresolved")))
    found = rollout_record({**row, "reward": 1.0, "resolved": True})
    assert (found.outcome.status, found.outcome.flags) == ("resolved", ("imported",))
    masked = rollout_record({**row, "mask_sample": True, "failure_kind": "judge_failed"})
    assert masked.outcome.mask is not None
    assert masked.outcome.mask.evidence["failure_kind"] == "judge_failed"
    other_patch = rollout_record({**row, "model_patch": "something else\n"})
    assert other_patch.outcome.flags == ("imported",)
    assert other_patch.patch.text == "something else\n"


def test_rows_of_others_are_read_by_the_frozen_fields_alone() -> None:
    row = {
        "instance_id": "django__django-1",
        "reward": 0.0,
        "mask_sample": True,
        "agent_timed_out": True,
        "resolved": False,
        "responses_create_params": {"metadata": {"dataset_name": "SWE-bench", "problem_statement": "p"}},
        "response": {"metadata": {"model_patch": "diff\n"}, "model": "m"},
        "openhands_run_time": 12.0,
        "something_of_theirs": [1],
    }
    found = rollout_record(row)
    assert found.outcome.mask is not None
    assert (found.outcome.mask.kind, found.outcome.mask.stage) == ("timeout", "agent")
    assert (found.patch.data, found.problem_statement, found.stages_s) == (b"diff\n", "p", {"invoke_agent": 12.0})
    again = as_line(nemo_gym_row(found))
    assert (again["reward"], again["mask_sample"], again["agent_timed_out"]) == (0.0, True, True)
    assert rollout_record(again) == found
    assert NemoGymRow.model_validate(row).model_dump()["something_of_theirs"] == [1], "unknown fields are kept"


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*NemoGymRow.model_fields, "model_patch_base64", "x"]), plain, max_size=8))
def test_whatever_a_file_holds_is_read_or_refused(row: dict[str, Any]) -> None:
    row.setdefault("instance_id", "a")
    row.setdefault("reward", 0.0)
    try:
        found = rollout_record(row)
    except InputError:
        return
    assert found.outcome.instance_id == row["instance_id"]
    assert rollout_record(as_line(nemo_gym_row(found))) == found
