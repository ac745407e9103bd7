"""The one place that says which kind of failure an exception is. What follows from it, the policy table decides."""

from __future__ import annotations

import errno
import traceback
from dataclasses import dataclass, field
from typing import Any

from swe_sdk import errors
from swe_sdk.model.policy import FailureKind, Stage

_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (errors.NoSpace, "no_space"),
    (errors.CreateFailed, "create_failed"),
    (errors.SnapshotNotFound, "create_failed"),
    (errors.SnapshotBusy, "create_failed"),
    (errors.TransferFailed, "transfer_failed"),
    (errors.SandboxOutOfMemory, "memory_limit"),
    (errors.SandboxError, "sandbox_lost"),
    (errors.BuildFailed, "environment_failed"),
    (errors.ResetFailed, "reset_failed"),
    (errors.TestPatchFailed, "test_patch_failed"),
    (errors.EvaluatorFailed, "evaluator_failed"),
    (errors.ModelUnreachable, "model_unreachable"),
    (errors.ModelError, "model_failed"),
    (errors.PatchUnavailable, "patch_unavailable"),
    (errors.VerifierUnreachable, "verifier_unreachable"),
    (errors.VerifierError, "verifier_failed"),
    (errors.ProviderUnavailable, "provider_unavailable"),
    (errors.CapabilityMissing, "capability_missing"),
    (errors.PrerequisiteError, "missing_tool"),
    (errors.InputError, "invalid_task"),
    (TimeoutError, "timeout"),
    (MemoryError, "host_oom"),
)
"""Most special first."""


@dataclass(frozen=True)
class Failure:
    """Something went wrong in ``stage``; ``evidence`` holds plain data that shows it."""

    kind: FailureKind
    stage: Stage
    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)


def classify(error: BaseException, stage: Stage) -> Failure:
    """What kind of failure ``error`` is, raised in ``stage``.

    Decided by its type alone: never by a message, which a program in the sandbox might have had a hand in. A type that
    is not in the error tree is a defect of ours, ``internal_error``, and carries its traceback.
    """
    error = first_leaf(error)
    kind = _kind(error)
    return Failure(kind, stage, _reason(error, kind, stage), _evidence(error, kind))


def first_leaf(error: BaseException) -> BaseException:
    """The first exception within nested groups (task groups wrap what their children raise)."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _kind(error: BaseException) -> FailureKind:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no_space"
    return next((kind for family, kind in _KINDS if isinstance(error, family)), "internal_error")


def _reason(error: BaseException, kind: FailureKind, stage: Stage) -> str:
    if kind == "timeout":
        return str(error) or f"the time for this attempt ran out in its {stage} stage"
    if kind == "internal_error":
        return f"a defect of swe_sdk: {type(error).__name__}: {error}"
    return str(error) or type(error).__name__


def _evidence(error: BaseException, kind: FailureKind) -> dict[str, Any]:
    evidence: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, errors.SweError) and error.remedy:
        evidence["remedy"] = error.remedy
    if isinstance(error, errors.MissingTool):
        evidence["tool"] = error.tool
    if isinstance(error, errors.BuildFailed):
        evidence |= {"step": error.step, "output": error.output[-4000:]}
    if kind == "internal_error":
        evidence["traceback"] = "".join(traceback.format_exception(error))[-8000:]
    return evidence
