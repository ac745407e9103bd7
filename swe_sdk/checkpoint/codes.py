"""The error codes of the protocol, their HTTP statuses, and what a caller should make of them. Data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from swe_sdk.errors import CheckpointError

Code = Literal[
    "activation_out_of_order",
    "admission_closed",
    "checkpoint_conflict",
    "checkpoint_coordinator_unavailable",
    "checkpoint_error",
    "deadline_exceeded",
    "invalid_checkpoint_state",
    "invalid_phase",
    "restart_in_scope",
    "rollout_id_required",
    "stale_attempt",
    "stale_checkpoint",
    "unauthorized",
]


class Meaning(NamedTuple):
    """HTTP status of a code, and what it says."""

    status: int
    about: str


CODES: Mapping[Code, Meaning] = {
    "checkpoint_error": Meaning(409, "it failed; the detail says how"),
    "stale_checkpoint": Meaning(409, "that checkpoint is over, or was never the newest"),
    "checkpoint_conflict": Meaning(409, "another checkpoint is open, or the same operation had other arguments"),
    "invalid_phase": Meaning(409, "not now; the detail says what to do first"),
    "deadline_exceeded": Meaning(409, "time ran out; the same call may be made again"),
    "stale_attempt": Meaning(409, "that attempt was retired, or was cut by a restore"),
    "admission_closed": Meaning(409, "nothing is let in until the checkpoint is resumed"),
    "restart_in_scope": Meaning(409, "the scope holds an episode that was reported as a restart"),
    "activation_out_of_order": Meaning(409, "activations of a session are numbered 1, 2, 3, ..."),
    "rollout_id_required": Meaning(400, "the call must name its rollout"),
    "unauthorized": Meaning(401, "the token is missing or wrong"),
    "invalid_checkpoint_state": Meaning(422, "what is saved does not fit: digest, count, task or layout"),
    "checkpoint_coordinator_unavailable": Meaning(503, "the coordinator of this server's workers cannot be reached"),
}


def refuse(code: Code, detail: str, *, remedy: str = "") -> CheckpointError:
    """An error with one of :data:`CODES`, to be raised."""
    return CheckpointError(code, detail, remedy=remedy)
