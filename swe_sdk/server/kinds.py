"""What a mask is called by those who do not know ours: NeMo Gym's vocabulary of failures, and its ``error_kind``."""

from __future__ import annotations

from collections.abc import Mapping

from swe_sdk.model.outcome import Mask
from swe_sdk.model.policy import FailureKind
from swe_sdk.server.models import ErrorKind

_SHARED: Mapping[FailureKind, str] = {
    "agent_crashed": "agent_run_error",
    "agent_failed": "agent_run_error",
    "cancelled": "cancelled",
    "create_failed": "provider_unavailable",
    "evaluator_failed": "verifier_error",
    "host_oom": "provider_oom_killed",
    "internal_error": "verifier_error",
    "memory_limit": "provider_oom_killed",
    "model_unreachable": "transport_unreachable",
    "no_space": "provider_quota_exhausted",
    "provider_unavailable": "provider_unavailable",
    "verifier_failed": "verifier_error",
    "verifier_unreachable": "transport_unreachable",
}
"""Names of NeMo Gym 0.7's vocabulary that mean the same; what it has no name for is ``swe_sdk:<kind>``."""

_SANDBOX: frozenset[FailureKind] = frozenset(
    (
        "cancelled",
        "capability_missing",
        "create_failed",
        "environment_failed",
        "host_oom",
        "missing_tool",
        "no_space",
        "provider_unavailable",
        "sandbox_lost",
        "transfer_failed",
    )
)

SHUTDOWN = "the server was told to stop"
"""The reason of masks that NeMo Gym calls ``shutdown``."""


def failure_kind(mask: Mask) -> str:
    """One name, of few, that may be grouped by."""
    if mask.kind == "cancelled" and mask.reason == SHUTDOWN:
        return "shutdown"
    if mask.kind == "timeout" and mask.stage == "agent":
        return "agent_timeout"
    return _SHARED.get(mask.kind, f"swe_sdk:{mask.kind}")


def error_kind(mask: Mask) -> ErrorKind:
    """``eval_timeout`` is the tests' time, ``timeout`` any other; ``sandbox`` the ground under the tests."""
    if mask.kind == "timeout":
        return "eval_timeout" if mask.stage == "tests" else "timeout"
    return "sandbox" if mask.kind in _SANDBOX else "eval_error"
