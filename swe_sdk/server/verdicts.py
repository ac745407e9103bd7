"""From an Outcome to what goes over the wire."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.server.kinds import error_kind, failure_kind
from swe_sdk.server.models import ControlReport, PatchSource, TaskSource, Verdict


class Graded(NamedTuple):
    """An outcome, and what came of the gold patch where it was graded too."""

    outcome: Outcome
    control: ControlReport | None = None


def verdict_of(graded: Graded, *, patch_source: PatchSource, task_source: TaskSource) -> Verdict:
    """What an answer to ``/verify`` says beside the echo of its request."""
    outcome, mask = graded.outcome, graded.outcome.mask
    return Verdict(
        reward=outcome.reward,
        mask_sample=mask is not None,
        failure_kind=None if mask is None else failure_kind(mask),
        failure_reason=None if mask is None else mask.reason,
        instance_id=outcome.instance_id,
        resolved=outcome.resolved,
        patch_exists=outcome.patch.exists,
        patch_applied=outcome.patch.applied is True,
        eval_error=mask is not None,
        error_kind=None if mask is None else error_kind(mask),
        status=outcome.status,
        reason=outcome.reason,
        flags=outcome.flags,
        mask=mask,
        control=graded.control,
        patch_source=patch_source,
        task_source=task_source,
        provider=outcome.provider,
        key=outcome.key,
        timings_s=outcome.timings_s,
    )


def held_against(outcome: Outcome, gold: Outcome) -> Graded:
    """An outcome beside that of the gold patch under the same conditions.

    Where the gold patch does not resolve the task either, nothing was measured: whatever is broken, it is not the
    submission. A control run that is itself masked says nothing.
    """
    control = ControlReport(status=gold.status, reason=gold.reason)
    if outcome.status != "unresolved" or gold.status != "unresolved":
        return Graded(outcome, control)
    reason = "the task's own gold patch does not resolve it under the same conditions"
    evidence = {"control": {"reason": gold.reason, "tests": gold.counts, "key": gold.key}}
    mask = Mask(kind="invalid_task", stage="tests", reason=reason, evidence=evidence)
    told = {"status": "masked", "mask": mask, "reason": reason}
    return Graded(Outcome.model_validate({**outcome.model_dump(), **told}), control)
