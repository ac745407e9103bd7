"""What goes wrong with made-up rollouts: every kind of failure that masks by default, in stages where it happens."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from swe_sdk.model.outcome import Mask
from swe_sdk.model.policy import DEFAULT_POLICY, FailureKind, Stage
from swe_sdk.store.events import RolloutStage


class Fault(NamedTuple):
    """A way to fail, how often, and what is known of it from outside the graded program."""

    kind: FailureKind
    stage: Stage
    weight: float
    reason: str
    evidence: dict[str, Any]


FAULTS = (
    Fault("sandbox_lost", "tests", 22, "the box died while it ran the tests", {"exit_code": 137, "signal": "SIGKILL"}),
    Fault("sandbox_lost", "agent", 9, "the agent's box died between two commands", {"last_seen_s": 4.1}),
    Fault("create_failed", "create", 16, "the engine did not make the box", {"http_status": 500, "tries": 3}),
    Fault("model_unreachable", "agent", 14, "the model's endpoint refused the connection", {"tries": 6, "errno": 111}),
    Fault("model_failed", "agent", 7, "the model's endpoint answered 503 to every try", {"http_status": 503}),
    Fault("timeout", "create", 10, "no box within 600 s", {"waited_s": 600.0, "queue": 41}),
    Fault("timeout", "environment", 4, "the environment was not built within 1800 s", {"step": "pip install"}),
    Fault("host_oom", "tests", 6, "the host ran out of memory", {"oom_kills": 2, "memory_available_mib": 71}),
    Fault("no_space", "environment", 8, "no space left on the disk", {"errno": 28, "free_bytes": 0}),
    Fault("environment_failed", "environment", 5, "a build step exited with 1", {"step": 4, "exit_code": 1}),
    Fault("transfer_failed", "verify", 3, "the patch could not be copied into the box", {"bytes": 18231}),
    Fault("verifier_unreachable", "verify", 4, "the verifier did not answer for a minute", {"tries": 9}),
    Fault("verifier_failed", "verify", 2, "the verifier answered 500", {"http_status": 500}),
    Fault("evaluator_failed", "parse", 2, "the evaluator of the data set gave no verdict", {"exit_code": 2}),
    Fault("prelude_failed", "prelude", 2, "the set-up command of the task exited with 1", {"exit_code": 1}),
    Fault("reset_failed", "reset", 2, "the repository could not be brought to its base", {"exit_code": 128}),
    Fault("test_patch_failed", "test_patch", 3, "the hidden tests do not apply", {"rejected_hunks": 2}),
    Fault("missing_tool", "environment", 2, "node is not on this machine", {"tool": "node"}),
    Fault("capability_missing", "admission", 1, "the provider cannot limit the disk", {"capability": "disk_limit"}),
    Fault("provider_unavailable", "admission", 2, "the daemon does not answer", {"socket": "/var/run/docker.sock"}),
    Fault("invalid_task", "admission", 1, "the task requires no test", {}),
    Fault("disk_limit", "agent", 2, "the agent wrote more than its box may hold", {"limit_mib": 20480}),
    Fault("memory_limit", "verify", 2, "the box of the verifier went beyond its memory", {"limit_mib": 8192}),
    Fault("agent_crashed", "agent", 3, "the adapter raised KeyError: 'choices'", {"exception": "KeyError"}),
    Fault("internal_error", "return", 1, "a defect: AssertionError", {"exception": "AssertionError"}),
    Fault("cancelled", "agent", 2, "somebody stopped the work", {}),
)
_OF_STAGE: dict[Stage, RolloutStage] = {
    "agent": "invoke_agent",
    "admission": "seed",
    "create": "seed",
    "environment": "seed",
    "return": "return",
}
_WEIGHTS = [fault.weight for fault in FAULTS]
_DISK_FULL = FAULTS[8]


def choose_fault(chance: random.Random, *, disk_is_full: bool) -> Fault:
    """Any of them; in the hours in which the disk was full, mostly that."""
    return _DISK_FULL if disk_is_full and chance.random() < 0.8 else chance.choices(FAULTS, _WEIGHTS)[0]


def mask_of(fault: Fault) -> Mask:
    """As the policy would have it."""
    retryable = DEFAULT_POLICY.decide(fault.stage, fault.kind).retryable
    return Mask(kind=fault.kind, stage=fault.stage, reason=fault.reason, retryable=retryable, evidence=fault.evidence)


def rollout_stage(fault: Fault) -> RolloutStage:
    """The stage of the rollout in which it came."""
    return _OF_STAGE.get(fault.stage, "verify")
