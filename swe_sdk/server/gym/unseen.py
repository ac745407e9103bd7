"""Tasks of which a server has seen the public half alone, and outcomes about them."""

from __future__ import annotations

from typing import Any

from swe_sdk.agents.contract import AgentTask
from swe_sdk.grading.classify import Failure
from swe_sdk.model.environment import ImageEnvironment
from swe_sdk.model.policy import Policy
from swe_sdk.model.task import GradingSpec, Task
from swe_sdk.rollouts.failures import failed_outcome
from swe_sdk.server.verdicts import Graded, verdict_of

_FAMILY = "lent"
"""It is not known here, and nothing is graded by it."""


def unseen_task(told: AgentTask) -> Task:
    """A task whose private half is elsewhere, as is its environment."""
    return Task(
        instance_id=told.instance_id,
        family=_FAMILY,
        repo=told.repo,
        problem_statement=told.problem_statement,
        hints=told.hints,
        base_commit=told.base_commit,
        environment=ImageEnvironment(image=_FAMILY, workdir=told.workdir),
        metadata=told.metadata,
        grading=GradingSpec(test_command="", parser=""),
    )


def failed_verification(instance_id: str, policy: Policy, failure: Failure) -> dict[str, Any]:
    """The fields of a verification that could not be had, but for the echo of what was asked."""
    outcome = failed_outcome(unseen_task(AgentTask(instance_id=instance_id)), policy, "", failure)
    verdict = verdict_of(Graded(outcome), patch_source="none", task_source="request")
    return {**verdict.model_dump(mode="json"), "outcome": outcome.model_dump(mode="json")}
