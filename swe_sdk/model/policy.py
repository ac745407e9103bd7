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
    "agent",
]
FailureKind = Literal[
    "budget_spent",  # the agent's budget ran out
    "cancelled",  # somebody stopped the work
    "capability_missing",  # the provider cannot do what the task needs
    "create_failed",  # no sandbox could be made
    "environment_failed",  # a build step failed
    "evaluator_failed",  # an upstream's own evaluator gave no verdict
    "host_oom",  # the host ran out of memory
    "internal_error",  # a defect of ours
    "invalid_task",  # the task itself cannot be graded (no required tests, unknown parser)
    "memory_limit",  # the program went beyond its own memory limit
    "missing_tool",  # a program is not on this machine
    "no_space",  # the disk is full
    "patch_unappliable",  # the model's patch does not apply
    "prelude_failed",  # the dataset's own set-up commands failed
    "provider_unavailable",  # the provider does not work here
    "reset_failed",  # the repository could not be brought to its base
    "results_disagree",  # the log of the tests and the runner's own results contradict each other
    "runner_files",  # the patch resolves the task only with its own version of files that configure the test runner
    "sandbox_lost",  # the sandbox died
    "test_patch_failed",  # the hidden tests could not be installed
    "timeout",  # a stage's time ran out
    "transfer_failed",  # a file could not be moved
    "unparseable",  # no test result could be read
]
Verdict = Literal["masked", "unresolved", "grade"]


class Decision(Record):
    """``verdict`` of the outcome ("grade" = carry on with what is there), and whether a new attempt may help."""

    verdict: Verdict
    retryable: bool = False


_MASK, _MASK_RETRY = Decision(verdict="masked"), Decision(verdict="masked", retryable=True)
_UNRESOLVED, _GRADE = Decision(verdict="unresolved"), Decision(verdict="grade")

DECISIONS: Mapping[tuple[str, str], Decision] = {
    ("agent", "budget_spent"): _GRADE,
    ("agent", "timeout"): _GRADE,
    ("apply", "patch_unappliable"): _UNRESOLVED,
    ("tests", "timeout"): _UNRESOLVED,
    ("tests", "memory_limit"): _UNRESOLVED,
    ("tests", "runner_files"): _UNRESOLVED,
    ("parse", "results_disagree"): _UNRESOLVED,
    ("parse", "unparseable"): _UNRESOLVED,
    ("*", "cancelled"): _MASK_RETRY,
    ("*", "capability_missing"): _MASK,
    ("*", "create_failed"): _MASK_RETRY,
    ("*", "environment_failed"): _MASK,
    ("*", "evaluator_failed"): _MASK,
    ("*", "host_oom"): _MASK_RETRY,
    ("*", "internal_error"): _MASK,
    ("*", "invalid_task"): _MASK,
    ("*", "memory_limit"): _MASK,
    ("*", "missing_tool"): _MASK,
    ("*", "no_space"): _MASK_RETRY,
    ("*", "prelude_failed"): _MASK,
    ("*", "provider_unavailable"): _MASK,
    ("*", "reset_failed"): _MASK,
    ("*", "sandbox_lost"): _MASK_RETRY,
    ("*", "test_patch_failed"): _MASK,
    ("*", "timeout"): _MASK_RETRY,
    ("*", "transfer_failed"): _MASK_RETRY,
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
_NEMO_GYM = {("tests", "timeout"): _MASK, ("agent", "timeout"): _MASK, ("agent", "budget_spent"): _MASK}
NEMO_GYM_POLICY = Policy({**DECISIONS, **_NEMO_GYM}, name="nemo_gym")
"""NeMo Gym's rule (``eval_timed_out or agent_timed_out``): a timeout of the tests or of the agent masks."""

_NAMED = {policy.name: policy for policy in (DEFAULT_POLICY, NEMO_GYM_POLICY)}


def get_policy(policy: Policy | str) -> Policy:
    """A policy by name ("default", "nemo_gym") or itself."""
    if isinstance(policy, Policy):
        return policy
    if policy not in _NAMED:
        raise InputError(f"unknown policy {policy!r}", remedy=f"known: {', '.join(sorted(_NAMED))}")
    return _NAMED[policy]
