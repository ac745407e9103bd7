"""From what was found to an Outcome."""

from __future__ import annotations

from dataclasses import dataclass

from swe_sdk.grading.classify import Failure
from swe_sdk.grading.trace import Trace
from swe_sdk.model.outcome import MISSING, Mask, Outcome, PatchReport, Status, TestReport
from swe_sdk.model.patch import Patch
from swe_sdk.model.policy import Decision, Policy
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Resolution

_FLAGS = {("tests", "timeout"): "tests_timed_out"}
"""Flags of failures that need not mask."""


@dataclass(frozen=True)
class Subject:
    """What an outcome is about."""

    task: Task
    patch: Patch
    policy: Policy
    provider: str
    key: str


def unreported(task: Task) -> TestReport:
    """Every required test, as one that no run has reported."""
    return TestReport(
        fail_to_pass=dict.fromkeys(task.grading.fail_to_pass, MISSING),
        pass_to_pass=dict.fromkeys(task.grading.pass_to_pass, MISSING),
    )


def not_resolved(task: Task, reason: str) -> Resolution:
    """An unresolved verdict on a patch whose tests did not run."""
    return Resolution(resolved=False, tests=unreported(task), reason=reason)


def outcome_of(subject: Subject, finding: Resolution | Failure, trace: Trace) -> Outcome:
    """The Outcome of what an attempt has found.

    What a failure means, the policy alone decides ("grade" where nothing is left to grade means masked). The evidence
    of a mask is its own; that of an unresolved outcome includes the failure that it comes from.
    """
    if isinstance(finding, Failure):
        flag = _FLAGS.get((finding.stage, finding.kind))
        if flag:
            trace.flag(flag)
        return _of_failure(subject, finding, subject.policy.decide(finding.stage, finding.kind), trace)
    for flag in finding.flags:
        trace.flag(flag)
    return _outcome(subject, trace, "resolved" if finding.resolved else "unresolved", finding.tests, finding.reason)


def _of_failure(subject: Subject, failure: Failure, decision: Decision, trace: Trace) -> Outcome:
    mask = None
    if decision.verdict == "unresolved":
        trace.evidence |= {"failure": {"stage": failure.stage, "kind": failure.kind}, **failure.evidence}
    else:
        mask = Mask(
            kind=failure.kind,
            stage=failure.stage,
            reason=failure.reason,
            retryable=decision.retryable,
            evidence=failure.evidence,
        )
    tests = trace.tests or unreported(subject.task)
    return _outcome(subject, trace, "masked" if mask else "unresolved", tests, failure.reason, mask=mask)


def _outcome(
    subject: Subject, trace: Trace, status: Status, tests: TestReport, reason: str, *, mask: Mask | None = None
) -> Outcome:
    task, patch = subject.task, subject.patch
    return Outcome(
        instance_id=task.instance_id,
        family=task.family,
        status=status,
        reward=1.0 if status == "resolved" else 0.0,
        mask=mask,
        tests=tests,
        patch=PatchReport(
            exists=patch.exists,
            applied=trace.applied,
            rung=trace.rung,
            sha256=patch.sha256,
            repairs=patch.repairs,
        ),
        reason=reason,
        flags=tuple(trace.flags),
        evidence=trace.evidence,
        timings_s=trace.times(),
        provider=subject.provider,
        key=subject.key,
    )
