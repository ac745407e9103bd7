"""The one table that decides, for each stage and kind of failure, what the failure makes of an outcome.

It is data: read :data:`DEFAULT_POLICY`, print it, or override lines of it with :meth:`Policy.override`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from swe_sdk.errors import InputError, did_you_mean
from swe_sdk.model.record import Record

Stage = Literal[
    "admission",
    "environment",
    "create",
    "apply",
    "reset",
    "test_patch",
    "prelude",
    "tests",
    "parse",
    "teardown",
    "seed",
    "agent",
    "close_agent",
    "verify",
    "return",
]
"""Of a grade, from admission to teardown, and of a rollout: seed, agent, close_agent, verify, return."""
FailureKind = Literal[
    "agent_crashed",  # the adapter around the agent broke, on our side of the wall
    "agent_failed",  # the agent says that it failed, or its program exited with an error
    "budget_spent",  # the agent's budget ran out
    "cancelled",  # somebody stopped the work
    "capability_missing",  # the provider cannot do what the task needs
    "context_window",  # the agent filled its model's context window
    "create_failed",  # no sandbox could be made
    "disk_limit",  # the program wrote more than its box may hold
    "environment_failed",  # a build step failed
    "evaluator_failed",  # an upstream's own evaluator gave no verdict
    "host_oom",  # the host ran out of memory
    "internal_error",  # a defect of ours
    "invalid_task",  # the task itself cannot be graded (no required tests, unknown parser)
    "lost_worker",  # the process or the machine that did the work is gone
    "memory_limit",  # the program went beyond its own memory limit
    "missing_tool",  # a program is not on this machine
    "model_failed",  # the model's endpoint answered with an error of its own
    "model_unreachable",  # the model's endpoint could not be reached, or did not answer in time
    "no_space",  # the disk is full
    "patch_unappliable",  # the model's patch does not apply
    "patch_unavailable",  # the agent left a sandbox from which no patch can be taken
    "prelude_failed",  # the dataset's own set-up commands failed
    "provider_unavailable",  # the provider does not work here
    "reset_failed",  # the repository could not be brought to its base
    "results_disagree",  # the log of the tests and the runner's own results contradict each other
    "runner_files",  # the patch resolves the task only with its own version of files that configure the test runner
    "sandbox_lost",  # the sandbox died
    "step_limit",  # the agent reached its own limit of steps
    "test_patch_failed",  # the hidden tests could not be installed
    "timeout",  # a stage's time ran out
    "transfer_failed",  # a file could not be moved
    "unparseable",  # no test result could be read
    "verifier_failed",  # a verifier elsewhere answered, and not with a verdict
    "verifier_unreachable",  # a verifier elsewhere could not be reached, or did not answer in time
]
Verdict = Literal["masked", "unresolved", "grade", "masked_if_resolved"]


class Decision(Record):
    """``verdict`` of the outcome, and whether a new attempt may help.

    "grade" = carry on with what is there; "masked_if_resolved" = the same, but a success does not count.
    """

    verdict: Verdict
    retryable: bool = False


_MASK, _MASK_RETRY = Decision(verdict="masked"), Decision(verdict="masked", retryable=True)
_UNRESOLVED, _GRADE = Decision(verdict="unresolved"), Decision(verdict="grade")

DECISIONS: Mapping[tuple[str, str], Decision] = {
    ("agent", "budget_spent"): _GRADE,
    ("agent", "timeout"): _GRADE,
    ("agent", "step_limit"): _GRADE,
    ("agent", "context_window"): _GRADE,
    ("agent", "agent_failed"): _GRADE,
    ("agent", "memory_limit"): _UNRESOLVED,
    ("close_agent", "memory_limit"): _UNRESOLVED,
    ("close_agent", "patch_unavailable"): _UNRESOLVED,
    ("apply", "patch_unappliable"): _UNRESOLVED,
    ("tests", "timeout"): _UNRESOLVED,
    ("tests", "memory_limit"): _UNRESOLVED,
    ("tests", "disk_limit"): _UNRESOLVED,
    ("tests", "runner_files"): _UNRESOLVED,
    ("parse", "results_disagree"): _UNRESOLVED,
    ("parse", "unparseable"): _UNRESOLVED,
    ("*", "agent_crashed"): _MASK,
    ("*", "cancelled"): _MASK_RETRY,
    ("*", "capability_missing"): _MASK,
    ("*", "create_failed"): _MASK_RETRY,
    ("*", "disk_limit"): _MASK,
    ("*", "environment_failed"): _MASK,
    ("*", "evaluator_failed"): _MASK,
    ("*", "host_oom"): _MASK_RETRY,
    ("*", "internal_error"): _MASK,
    ("*", "invalid_task"): _MASK,
    ("*", "lost_worker"): _MASK_RETRY,
    ("*", "memory_limit"): _MASK,
    ("*", "missing_tool"): _MASK,
    ("*", "model_failed"): _MASK_RETRY,
    ("*", "model_unreachable"): _MASK_RETRY,
    ("*", "no_space"): _MASK_RETRY,
    ("*", "prelude_failed"): _MASK,
    ("*", "provider_unavailable"): _MASK,
    ("*", "reset_failed"): _MASK,
    ("*", "sandbox_lost"): _MASK_RETRY,
    ("*", "test_patch_failed"): _MASK,
    ("*", "timeout"): _MASK_RETRY,
    ("*", "transfer_failed"): _MASK_RETRY,
    ("*", "verifier_failed"): _MASK,
    ("*", "verifier_unreachable"): _MASK_RETRY,
}


class Policy:
    """A lookup in the table: the line of the stage first, then the line of any stage ("*"), then masked.

    A line of a stage or kind that there is not raises ``InputError``: it would never be looked up.
    """

    def __init__(self, decisions: Mapping[tuple[str, str], Decision], name: str = "custom") -> None:
        for stage, kind in decisions:
            _require_known("stage", stage, ("*", *get_args(Stage)))
            _require_known("kind of failure", kind, get_args(FailureKind))
        self.name = name
        self.decisions = dict(decisions)

    def decide(self, stage: Stage, kind: FailureKind) -> Decision:
        """What a failure of ``kind`` in ``stage`` makes of the outcome."""
        return self.decisions.get((stage, kind)) or self.decisions.get(("*", kind)) or _MASK

    def override(self, changes: Mapping[tuple[str, str], Verdict | Decision]) -> Policy:
        """A policy with some lines changed: ``policy.override({("tests", "timeout"): "masked"})``."""
        lines = {k: v if isinstance(v, Decision) else Decision(verdict=v) for k, v in changes.items()}
        return Policy({**self.decisions, **lines}, name=f"{self.name}+")

    @property
    def fingerprint(self) -> list[list[str]]:
        """The table as sorted plain data, for content keys."""
        return sorted([stage, kind, d.verdict, str(d.retryable)] for (stage, kind), d in self.decisions.items())


def _require_known(what: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise InputError(f"unknown {what} {name!r}", remedy=did_you_mean(name, known))


DEFAULT_POLICY = Policy(DECISIONS, name="default")
_UNLESS_WRONG = Decision(verdict="masked_if_resolved")
_NEMO_GYM = {
    ("tests", "timeout"): _MASK,
    ("agent", "timeout"): _MASK,
    ("agent", "budget_spent"): _MASK,
    ("agent", "step_limit"): _UNLESS_WRONG,
    ("agent", "context_window"): _UNLESS_WRONG,
}
NEMO_GYM_POLICY = Policy({**DECISIONS, **_NEMO_GYM}, name="nemo_gym")
"""NeMo Gym's rule: ``(resolved and the agent's error is max_iteration or context_window) or eval_timed_out or
agent_timed_out``."""

_NEMO_GYM_0_7 = {
    ("agent", "step_limit"): _MASK,
    ("agent", "context_window"): _MASK,
    ("agent", "memory_limit"): _MASK,
    ("close_agent", "memory_limit"): _MASK,
    ("tests", "memory_limit"): _MASK,
}
NEMO_GYM_0_7_POLICY = Policy({**NEMO_GYM_POLICY.decisions, **_NEMO_GYM_0_7}, name="nemo_gym_0_7")
"""The rule of its release 0.7.0: a full context or too many steps mask even a failure, and so does memory run out."""

_NAMED = {policy.name: policy for policy in (DEFAULT_POLICY, NEMO_GYM_POLICY, NEMO_GYM_0_7_POLICY)}


def get_policy(policy: Policy | str) -> Policy:
    """A policy by name ("default", "nemo_gym", "nemo_gym_0_7") or itself."""
    if isinstance(policy, Policy):
        return policy
    if policy not in _NAMED:
        raise InputError(f"unknown policy {policy!r}", remedy=f"known: {', '.join(sorted(_NAMED))}")
    return _NAMED[policy]
