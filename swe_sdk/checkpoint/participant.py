"""What takes part in a checkpoint, as its coordinator sees it: in this process, or behind HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from swe_sdk.checkpoint.messages import (
    CommitReply,
    CommitRequest,
    ForgetReply,
    ForgetRequest,
    Operation,
    PrepareReply,
    PrepareRequest,
    ReleaseReply,
    ReleaseRequest,
    RenewReply,
    RenewRequest,
    Request,
    RestoreReply,
    RestoreRequest,
    ResumeReply,
    ResumeRequest,
    RetireReply,
    RetireRequest,
    Status,
)

PREFIX = "/ng-control/v1/checkpoint"
"""Where the operations are, on the wire: GET ``status``, POST the others."""

REQUESTS: Mapping[Operation, type[Request]] = {
    "prepare": PrepareRequest,
    "renew": RenewRequest,
    "commit": CommitRequest,
    "restore": RestoreRequest,
    "resume": ResumeRequest,
    "retire": RetireRequest,
    "forget": ForgetRequest,
    "release": ReleaseRequest,
}
"""The body of each operation that has one; the participant's method of that name takes it."""


@runtime_checkable
class Participant(Protocol):
    """Every method may be called again with the same request, and raises ``CheckpointError`` where it refuses.

    :data:`swe_sdk.checkpoint.protocol.table.RULES` says what each does, and in which phase.
    """

    async def status(self) -> Status:
        """Without side effects."""

    async def prepare(self, request: PrepareRequest) -> PrepareReply:
        """Close admission and wait until ready, or until the deadline."""

    async def renew(self, request: RenewRequest) -> RenewReply:
        """Extend the lease."""

    async def commit(self, request: CommitRequest) -> CommitReply:
        """Export and write."""

    async def restore(self, request: RestoreRequest) -> RestoreReply:
        """Read, check and install, all or nothing."""

    async def resume(self, request: ResumeRequest) -> ResumeReply:
        """Open admission."""

    async def retire(self, request: RetireRequest) -> RetireReply:
        """Mark attempts as over, stop their work and free their state."""

    async def forget(self, request: ForgetRequest) -> ForgetReply:
        """Drop marks."""

    async def release(self, request: ReleaseRequest) -> ReleaseReply:
        """Free what only dropped checkpoints need."""
