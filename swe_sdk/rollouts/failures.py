"""From what went wrong in a rollout to a kind of failure, and from there to an outcome. The policy table decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swe_sdk.agents.contract import AgentEnd, EndReason
from swe_sdk.grading.classify import Failure, classify, first_leaf
from swe_sdk.grading.trace import Trace
from swe_sdk.grading.verdict import Subject, outcome_of
from swe_sdk.model.outcome import Mask, Outcome
from swe_sdk.model.patch import EMPTY_PATCH, Patch
from swe_sdk.model.policy import Decision, FailureKind, Policy, Stage
from swe_sdk.model.task import Task
from swe_sdk.rollouts.bookmark import RolloutStage
from swe_sdk.rollouts.meter import OutOfTime

POLICY_STAGES: Mapping[RolloutStage, Stage] = {
    "seed": "seed",
    "invoke_agent": "agent",
    "close_agent": "close_agent",
    "verify": "verify",
    "return": "return",
}
"""A stage of a rollout, as the policy table calls it."""

END_KINDS: Mapping[EndReason, FailureKind | None] = {
    "done": None,
    "step_limit": "step_limit",
    "context_window": "context_window",
    "budget": "budget_spent",
    "error": "agent_failed",
    "stopped": "cancelled",
}
"""What the end of an agent is to the policy table; None = nothing out of the ordinary."""

_FLAGS: Mapping[FailureKind, str] = {
    "timeout": "agent_timed_out",
    "budget_spent": "agent_budget_spent",
    "step_limit": "agent_step_limit",
    "context_window": "agent_context_window",
    "agent_failed": "agent_failed",
}


def failure_of(error: BaseException, stage: Stage) -> Failure:
    """What kind of failure an exception is, raised in ``stage``; by its type alone."""
    error = first_leaf(error)
    failure = classify(error, stage)
    if isinstance(error, OutOfTime):
        return Failure(error.kind, stage, str(error))
    if stage == "agent" and failure.kind == "internal_error":
        reason = f"the agent's adapter broke: {type(error).__name__}: {error}"
        return Failure("agent_crashed", stage, reason, failure.evidence)
    return failure


def failed_outcome(
    task: Task, policy: Policy, provider: str, failure: Failure, *, patch: Patch = EMPTY_PATCH
) -> Outcome:
    """The outcome of a rollout that was never verified: masked or, where the policy says so, unresolved."""
    return outcome_of(Subject(task, patch, policy, provider, key=""), failure, Trace(stage=failure.stage))


def unrecorded_outcome(task: Task, policy: Policy, provider: str, outcome: Outcome, error: BaseException) -> Outcome:
    """What an outcome becomes whose end could not be written down: masked, with what it was as evidence."""
    masked = failed_outcome(task, policy, provider, failure_of(error, "return"))
    return masked.model_copy(update={"evidence": {"unrecorded": outcome.model_dump(mode="json")}})


def end_failure(end: AgentEnd, kind: FailureKind | None) -> Failure | None:
    """The end of an agent as something that the policy decides on, unless it was an ordinary one."""
    if kind is None:
        return None
    reason = end.message or f"the agent ended by {end.reason}"
    return Failure(kind, "agent", reason[:2000], {"exit_code": end.exit_code} if end.exit_code else {})


def with_end(outcome: Outcome, end: AgentEnd, failure: Failure | None, decision: Decision | None) -> Outcome:
    """The verified outcome with what is known of the agent's end; masked where the policy lets no success count."""
    changes: dict[str, Any] = {}
    if failure is not None:
        flag = _FLAGS.get(failure.kind)
        changes["flags"] = (*outcome.flags, flag) if flag else outcome.flags
        if decision is not None and decision.verdict == "masked_if_resolved" and outcome.resolved:
            mask = Mask(kind=failure.kind, stage="agent", reason=failure.reason, retryable=decision.retryable)
            changes |= {"status": "masked", "reward": 0.0, "mask": mask, "reason": failure.reason}
    agent = {"reason": end.reason, "message": end.message[:2000], "exit_code": end.exit_code}
    changes["evidence"] = {**outcome.evidence, "agent": agent}
    return outcome.model_copy(update=changes)
