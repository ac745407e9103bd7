"""Rollouts as NeMo Gym rows, and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from swe_sdk.errors import InputError
from swe_sdk.exports.nemo_gym_row import NemoGymRow
from swe_sdk.exports.record import RolloutRecord, Turn
from swe_sdk.files import write_atomic
from swe_sdk.model.outcome import Mask, Outcome, PatchReport, Status
from swe_sdk.model.patch import Patch
from swe_sdk.server.kinds import error_kind, failure_kind
from swe_sdk.store.atomic import disk_full_is_typed

_VERSION = 1
_KEPT_APART = ("patch", "config")
"""Fields of a record that the frozen fields hold whole."""
_AGENT_ERRORS = {
    "agent_step_limit": "max_iteration",
    "agent_context_window": "context_window",
    "agent_timed_out": "timeout",
    "agent_budget_spent": "timeout",
    "agent_failed": "other",
}
"""What flags of an outcome are called there; the first that applies."""

_AGENT_TIME = (("agent", "timeout"), ("agent", "budget_spent"))


def nemo_gym_row(record: RolloutRecord) -> NemoGymRow:
    """A finished rollout as a row. :func:`rollout_record` gives the same record back."""
    outcome, mask = record.outcome, record.outcome.mask
    return NemoGymRow(
        responses_create_params=_request(record),
        response=_response(record),
        reward=outcome.reward,
        mask_sample=outcome.masked,
        failure_kind=None if mask is None else failure_kind(mask),
        failure_reason=None if mask is None else mask.reason,
        instance_id=record.instance_id,
        resolved=outcome.resolved,
        patch_exists=outcome.patch.exists,
        patch_applied=outcome.patch.applied is True,
        eval_error=outcome.masked,
        error_kind=None if mask is None else error_kind(mask),
        **_patch_fields(record.patch),
        **_agent_facts(record),
        **_times(record),
        instance_config=record.config,
        swe_sdk={
            "version": _VERSION,
            "record": record.model_dump(mode="json", exclude=set(_KEPT_APART)),
            "patch_repairs": list(record.patch.repairs),
        },
    )


def rollout_record(row: NemoGymRow | Mapping[str, Any]) -> RolloutRecord:
    """The rollout of a row, be it ours or another's.

    A row whose verdict somebody has changed since we wrote it (a reverification does) is read like another's: the
    frozen fields count, what they do not say is empty, and the outcome is flagged ``imported``. Raises ``InputError``.
    """
    try:
        row = row if isinstance(row, NemoGymRow) else NemoGymRow.model_validate(row)
        patch = _patch_of(row)
        return _own(row, patch) or _foreign(row, patch)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"no row of NeMo Gym: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def write_nemo_gym_rows(records: Iterable[RolloutRecord], path: Path | str) -> int:
    """A row a line into ``path``, which appears complete or not at all; returns how many.

    ``InputError`` where it cannot be written, ``NoSpace`` on a full disk.
    """
    lines = [row_line(nemo_gym_row(record)) for record in records]
    try:
        with disk_full_is_typed(Path(path)):
            write_atomic(Path(path), b"".join(lines))
    except OSError as error:
        raise InputError(f"cannot write rows to {path}: {error.strerror}", remedy="give another file") from error
    return len(lines)


def read_nemo_gym_rows(path: Path | str) -> Iterator[RolloutRecord]:
    """The rollouts of a file of rows, one a line. Raises ``InputError``, which names the line."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"cannot read rows from {path}: {error.strerror}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield rollout_record(json.loads(line))
            except (ValueError, RecursionError) as error:  # InputError is a ValueError
                raise InputError(f"{path}:{number}: {error}") from None


def row_line(row: NemoGymRow) -> bytes:
    """A row as one line of ASCII JSON."""
    return json.dumps(row.model_dump(mode="json")).encode() + b"\n"


def _request(record: RolloutRecord) -> dict[str, Any]:
    return {
        "input": [{"role": "user", "content": record.problem_statement}],
        "metadata": {"instance_id": record.instance_id, "dataset_name": record.outcome.family},
    }


def _response(record: RolloutRecord) -> dict[str, Any]:
    return {
        "id": f"{record.rollout_id}.{record.attempt}",
        "object": "response",
        "model": record.model or record.agent,
        "output": [],
        "metadata": _patch_fields(record.patch),
        "usage": {
            "input_tokens": sum(turn.tokens_in for turn in record.turns),
            "output_tokens": sum(turn.tokens_out for turn in record.turns),
        },
    }


def _patch_fields(patch: Patch) -> dict[str, str]:
    fields = {"model_patch": patch.text}
    if patch.text.encode("utf-8", "replace") != patch.data:
        fields["model_patch_base64"] = base64.b64encode(patch.data).decode()
    return fields


def _patch_of(row: NemoGymRow) -> Patch:
    encoded = (row.model_extra or {}).get("model_patch_base64")
    if isinstance(encoded, str):
        try:
            return Patch(data=base64.b64decode(encoded, validate=True))
        except ValueError:
            raise InputError(f"{row.instance_id}: model_patch_base64 is not base64") from None
    metadata = row.response.get("metadata")
    text = row.model_patch
    if text is None and isinstance(metadata, Mapping) and isinstance(metadata.get("model_patch"), str):
        text = metadata["model_patch"]
    return Patch(data=(text or "").encode("utf-8", "surrogateescape"))


def _agent_facts(record: RolloutRecord) -> dict[str, Any]:
    flags, met = record.outcome.flags, _failure(record.outcome)
    return {
        "agent_error_kind": next((name for flag, name in _AGENT_ERRORS.items() if flag in flags), None),
        "agent_timed_out": not {"agent_timed_out", "agent_budget_spent"}.isdisjoint(flags) or met in _AGENT_TIME,
        "eval_timed_out": met == ("tests", "timeout"),
        "oom_killed": met in (("agent", "memory_limit"), ("agent", "host_oom")),
        "eval_oom_killed": met in (("tests", "memory_limit"), ("tests", "host_oom")),
        "per_turn_metrics": [turn.model_dump() for turn in record.turns],
    }


def _failure(outcome: Outcome) -> tuple[str, str] | None:
    """Stage and kind of what went wrong, whether or not the policy made a mask of it."""
    if outcome.mask is not None:
        return outcome.mask.stage, outcome.mask.kind
    met = outcome.evidence.get("failure")
    return (str(met.get("stage")), str(met.get("kind"))) if isinstance(met, Mapping) else None


def _times(record: RolloutRecord) -> dict[str, Any]:
    stages, began = record.stages_s, record.stages_at
    return {
        "ray_queue_time": record.queued_s,
        "openhands_run_time": stages.get("invoke_agent"),
        "generation_start_timestamp": began.get("invoke_agent"),
        "evaluation_start_timestamp": began.get("verify"),
        "create_runtime_time": stages.get("seed"),
        "total_command_exec_time": record.seconds_of("action"),
        "total_model_call_time": record.seconds_of("model"),
        "final_eval_apptainer_spinup_time": record.outcome.timings_s.get("create"),
        "final_eval_time": stages.get("verify"),
    }


def _own(row: NemoGymRow, patch: Patch) -> RolloutRecord | None:
    """What we wrote, if it still says the same."""
    held = row.swe_sdk or {}
    if held.get("version") != _VERSION or not isinstance(held.get("record"), Mapping):
        return None
    repaired = Patch(data=patch.data, repairs=held.get("patch_repairs", ()))
    record = RolloutRecord.model_validate({**held["record"], "patch": repaired, "config": row.instance_config})
    same = (row.reward, row.mask_sample, row.resolved) == (
        record.outcome.reward,
        record.outcome.masked,
        record.outcome.resolved,
    )
    return record if same and record.outcome.patch.sha256 == patch.sha256 else None


def _foreign(row: NemoGymRow, patch: Patch) -> RolloutRecord:
    seconds = {"invoke_agent": row.openhands_run_time, "seed": row.create_runtime_time, "verify": row.final_eval_time}
    began = {"invoke_agent": row.generation_start_timestamp, "verify": row.evaluation_start_timestamp}
    metadata = row.responses_create_params.get("metadata")
    family = str(metadata.get("dataset_name", "")) if isinstance(metadata, Mapping) else ""
    return RolloutRecord(
        rollout_id=f"{row.instance_id}.0",
        instance_id=row.instance_id,
        model=str(row.response.get("model") or ""),
        problem_statement=_statement(row, metadata),
        outcome=_foreign_outcome(row, patch, family),
        patch=patch,
        queued_s=row.ray_queue_time or 0.0,
        stages_s={stage: value for stage, value in seconds.items() if value is not None},
        stages_at={stage: value for stage, value in began.items() if value is not None},
        turns=_turns(row.per_turn_metrics or []),
        config=row.instance_config,
    )


def _foreign_outcome(row: NemoGymRow, patch: Patch, family: str) -> Outcome:
    mask = _foreign_mask(row)
    resolved = row.resolved if row.resolved is not None else row.reward >= 1.0
    status: Status = "masked" if mask else "resolved" if resolved else "unresolved"
    known = {"agent_timed_out": row.agent_timed_out, "tests_timed_out": row.eval_timed_out}
    timed_out = {"failure": {"stage": "tests", "kind": "timeout"}} if row.eval_timed_out and mask is None else {}
    return Outcome(
        instance_id=row.instance_id,
        family=family,
        status=status,
        reward=1.0 if status == "resolved" else 0.0,
        mask=mask,
        patch=PatchReport(exists=patch.exists, applied=row.patch_applied, sha256=patch.sha256),
        reason="" if mask is None else mask.reason,
        flags=("imported", *(flag for flag, is_set in known.items() if is_set)),
        evidence=timed_out,
    )


def _foreign_mask(row: NemoGymRow) -> Mask | None:
    """NeMo Gym's masks, told apart by stage as far as its rows do."""
    if not row.mask_sample:
        return None
    of_agent = bool(row.agent_timed_out or row.agent_error_kind or row.oom_killed)
    timed_out = bool(row.agent_timed_out or row.eval_timed_out)
    kind = "timeout" if timed_out else "memory_limit" if row.oom_killed or row.eval_oom_killed else "evaluator_failed"
    told = {"failure_kind": row.failure_kind, "error_kind": row.error_kind, "agent_error_kind": row.agent_error_kind}
    evidence = {name: value for name, value in told.items() if value is not None}
    reason = row.failure_reason or row.failure_kind or row.error_kind or row.agent_error_kind or "masked there"
    return Mask.model_validate(
        {"kind": kind, "stage": "agent" if of_agent else "tests", "reason": reason, "evidence": evidence}
    )


def _statement(row: NemoGymRow, metadata: Any) -> str:
    if isinstance(metadata, Mapping) and isinstance(metadata.get("problem_statement"), str):
        return str(metadata["problem_statement"])
    given = row.responses_create_params.get("input")
    first = given[0] if isinstance(given, list) and given else None
    content = first.get("content") if isinstance(first, Mapping) else given
    return content if isinstance(content, str) else ""


def _turns(metrics: Iterable[Mapping[str, Any]]) -> tuple[Turn, ...]:
    known = ({name: value for name, value in each.items() if name in Turn.model_fields} for each in metrics)
    return tuple(Turn.model_validate({"kind": "model", **each}) for each in known)
