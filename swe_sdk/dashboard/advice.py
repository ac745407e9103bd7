"""What to do about each kind of failure: for people who look at a mask. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Advice(NamedTuple):
    """``meaning``: what happened; ``remedy``: what helps; ``command``: to find out more, or to mend it."""

    meaning: str
    remedy: str
    command: str | None = None


_DOCTOR = "swe-sdk doctor"
ADVICE: Mapping[str, Advice] = {
    "agent_crashed": Advice(
        "The adapter around the agent broke, on our side of the wall.",
        "Its exception is in the evidence. The same task will break it again: mend the adapter, or its version.",
    ),
    "agent_failed": Advice(
        "The agent says that it failed, or its program exited with an error.",
        "Read its log. By default what it left is graded; a policy of yours masks it.",
    ),
    "budget_spent": Advice(
        "The budget ran out.", "Give more time (budget), or fewer rollouts at once (limit) if boxes were slow."
    ),
    "cancelled": Advice("Somebody stopped the work.", "Resume the run: it is tried again."),
    "capability_missing": Advice(
        "The provider cannot do what the task needs.", "Take another provider; doctor says what each can do.", _DOCTOR
    ),
    "context_window": Advice("The agent filled its model's context.", "By default what it left is graded."),
    "create_failed": Advice(
        "The engine could not make a box.",
        "Look at the engine's own log. Fewer boxes at once (max_creates) help where it is overloaded.",
        _DOCTOR,
    ),
    "disk_limit": Advice(
        "The program wrote more than its box may hold.", "Raise the disk limit, or see what fills it in the log."
    ),
    "environment_failed": Advice(
        "A build step of the environment failed.",
        "The evidence names the step. Until it is mended no rollout of this task can be graded: leave the task out.",
    ),
    "evaluator_failed": Advice(
        "An upstream's own evaluator gave no verdict.", "Its output is in the evidence: it may be of another version."
    ),
    "host_oom": Advice(
        "The whole machine ran out of memory.",
        "Run fewer boxes at once (max_boxes, limit), or give each a memory limit, so that only the greedy one dies.",
    ),
    "internal_error": Advice(
        "A defect of this package.", "Please report it with the evidence below. Trying again rarely helps."
    ),
    "invalid_task": Advice(
        "The task itself cannot be graded.", "Validate the data set, and leave the task out.", "swe-sdk validate TASKS"
    ),
    "lost_worker": Advice(
        "The process or machine that carried the rollout out is gone.",
        "Look at what ended it: the scheduler's own log says so. Then try again.",
    ),
    "memory_limit": Advice(
        "The program went beyond its own memory limit.",
        "Raise memory_limit_mib if the task needs it; by default tests that do so are unresolved.",
    ),
    "missing_tool": Advice("A program is not on this machine.", "Install what the evidence names.", _DOCTOR),
    "model_failed": Advice(
        "The model's endpoint answered with errors of its own.", "Look at the endpoint; then try again."
    ),
    "model_unreachable": Advice(
        "The model's endpoint could not be reached, or did not answer in time.",
        "Is it up, and is its address right? Fewer calls at once (max_model_calls) help where it is overloaded.",
    ),
    "no_space": Advice(
        "The disk is full.",
        "Free space: what dead programs and dropped checkpoints have left goes with these; then try again.",
        "swe-sdk reap && swe-sdk snapshots --reap",
    ),
    "patch_unappliable": Advice("The patch does not apply.", "By default that is unresolved: the submission's doing."),
    "patch_unavailable": Advice(
        "No patch could be taken from the agent's box.", "By default that is unresolved: the agent has broken git."
    ),
    "prelude_failed": Advice(
        "The data set's own set-up commands failed.", "They are in the task. Leave it out until it is mended."
    ),
    "provider_unavailable": Advice("The provider does not work here.", "Doctor says why, and what to do.", _DOCTOR),
    "reset_failed": Advice(
        "The repository could not be brought to its base.", "Its image is not what the task says: build it anew."
    ),
    "results_disagree": Advice(
        "The log and the runner's own results contradict each other.", "By default that is unresolved."
    ),
    "runner_files": Advice(
        "The patch resolves the task only with its own files of the test runner.", "By default that is unresolved."
    ),
    "sandbox_lost": Advice(
        "The box died.",
        "If several died at the same time, look at the machine: memory, disk, a daemon that was restarted.",
        "swe-sdk reap --dry-run",
    ),
    "step_limit": Advice("The agent reached its own limit of steps.", "By default what it left is graded."),
    "test_patch_failed": Advice(
        "The hidden tests could not be installed.", "The task and its image do not fit each other: leave it out."
    ),
    "timeout": Advice(
        "A stage's time ran out.",
        "If all waited at the same time, too much was asked for at once (limit, max_creates); else raise the time.",
    ),
    "transfer_failed": Advice("A file could not be moved into or out of the box.", "Try again; look at the disk."),
    "unparseable": Advice("No test result could be read.", "By default that is unresolved: read the log."),
    "verifier_failed": Advice(
        "A verifier elsewhere answered, and not with a verdict.", "Its answer is in the evidence: look at its log."
    ),
    "verifier_unreachable": Advice(
        "A verifier elsewhere could not be reached.", "The patches are kept: once it is back, grade them again."
    ),
}
_UNKNOWN = Advice("A kind of failure that this version does not know.", "Read the evidence.")


def advice_on(kind: str) -> Advice:
    """What is known of a kind."""
    return ADVICE.get(kind, _UNKNOWN)
