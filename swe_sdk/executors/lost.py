"""What a result without an answer means for an outcome: nothing was measured, and whether it may be tried again."""

from __future__ import annotations

from swe_sdk.executors.contract import JobError, JobResult
from swe_sdk.grading.classify import Failure
from swe_sdk.model.policy import Stage


def failure_of_job(result: JobResult, stage: Stage) -> Failure:
    """Why a job that is not done gave no measurement: its worker was lost, or could not do it, or has a defect."""
    error = result.error or JobError(type="unknown", message="nothing is known of it")
    evidence: dict[str, object] = {"node": result.node, "seconds": round(result.seconds, 3), "error": error.type}
    if error.remedy:
        evidence["remedy"] = error.remedy
    if error.kind == "internal_error":
        evidence["traceback"] = error.traceback
        return Failure(error.kind, stage, f"a defect of swe_sdk: {error.type}: {error.message}", evidence)
    reason = f"the worker was lost: {error.message}" if error.kind == "lost_worker" else error.message
    return Failure(error.kind, stage, reason, evidence)
