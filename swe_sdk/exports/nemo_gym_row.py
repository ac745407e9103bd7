"""The rows of NeMo Gym's SWE servers, field for field.

The fields are frozen: trainers read them by name. What those servers measure and swe_sdk does not (peak memory, details
of a container's start) is null here, never invented.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class NemoGymMetrics(BaseModel):
    """What a row says beside the request, the response and the verdict. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="allow", ser_json_bytes="base64", val_json_bytes="base64")

    resolved: bool | None = None
    patch_exists: bool | None = None
    model_patch: str | None = None
    """As text; where that is not all of its bytes, ``model_patch_base64`` has them."""
    agent_error_kind: str | None = None
    """``max_iteration``, ``context_window``, ``timeout``, ``other``, or null."""
    agent_timed_out: bool | None = None
    eval_timed_out: bool | None = None
    oom_killed: bool | None = None
    eval_oom_killed: bool | None = None
    agent_peak_rss_mb: float | None = None
    eval_peak_rss_mb: float | None = None
    ray_queue_time: float | None = None
    openhands_run_time: float | None = None
    generation_start_timestamp: float | None = None
    evaluation_start_timestamp: float | None = None
    per_turn_metrics: list[dict[str, Any]] | None = None
    generation_apptainer_spinup_time: float | None = None
    create_runtime_time: float | None = None
    connect_to_runtime_time: float | None = None
    initialize_runtime_time: float | None = None
    total_command_exec_time: float | None = None
    total_model_call_time: float | None = None
    final_eval_apptainer_spinup_time: float | None = None
    final_eval_time: float | None = None


FROZEN_METRICS = tuple(NemoGymMetrics.model_fields)


class NemoGymRow(NemoGymMetrics):
    """One rollout as a line of NeMo Gym's ``rollouts.jsonl``; unknown fields are kept."""

    responses_create_params: dict[str, Any] = Field(default_factory=dict)
    """The request: the problem statement as input, the task's name in ``metadata``."""
    response: dict[str, Any] = Field(default_factory=dict)
    """The answer: the patch in ``metadata.model_patch``."""
    reward: float
    """Never null. Where ``mask_sample`` is set it is no measurement."""
    mask_sample: bool = False
    failure_kind: str | None = None
    failure_reason: str | None = None
    instance_id: str
    patch_applied: bool | None = None
    eval_error: bool | None = None
    error_kind: str | None = None
    instance_config: dict[str, Any] = Field(default_factory=dict)
    """The configuration that the rollout ran with."""
    swe_sdk: dict[str, Any] | None = None
    """All that swe_sdk knows beyond the frozen fields; rows of others have none."""
