"""The participant that a coordinator elsewhere is: every operation is sent there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from swe_sdk.checkpoint import messages
from swe_sdk.checkpoint.messages import Operation, Request, Status
from swe_sdk.model.record import Record
from swe_sdk.server.control.replies import read_reply

R = TypeVar("R", bound=Record)
Send = Callable[[str, Any], Awaitable[Any]]
"""Gives the reply to an operation and its request, both as plain data; raises the refusal."""


class ForwardingParticipant:
    """Implements :class:`~swe_sdk.checkpoint.participant.Participant` by what ``send`` brings back."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def status(self) -> Status:
        """Without side effects."""
        return await self._sent("status", None, Status)

    async def prepare(self, request: messages.PrepareRequest) -> messages.PrepareReply:
        """Close admission and wait until ready, or until the deadline."""
        return await self._sent("prepare", request, messages.PrepareReply)

    async def renew(self, request: messages.RenewRequest) -> messages.RenewReply:
        """Extend the lease."""
        return await self._sent("renew", request, messages.RenewReply)

    async def commit(self, request: messages.CommitRequest) -> messages.CommitReply:
        """Export and write."""
        return await self._sent("commit", request, messages.CommitReply)

    async def restore(self, request: messages.RestoreRequest) -> messages.RestoreReply:
        """Read, check and install, all or nothing."""
        return await self._sent("restore", request, messages.RestoreReply)

    async def resume(self, request: messages.ResumeRequest) -> messages.ResumeReply:
        """Open admission."""
        return await self._sent("resume", request, messages.ResumeReply)

    async def retire(self, request: messages.RetireRequest) -> messages.RetireReply:
        """Mark attempts as over, stop their work and free their state."""
        return await self._sent("retire", request, messages.RetireReply)

    async def forget(self, request: messages.ForgetRequest) -> messages.ForgetReply:
        """Drop marks."""
        return await self._sent("forget", request, messages.ForgetReply)

    async def release(self, request: messages.ReleaseRequest) -> messages.ReleaseReply:
        """Free what only dropped checkpoints need."""
        return await self._sent("release", request, messages.ReleaseReply)

    async def _sent(self, operation: Operation, request: Request | None, kind: type[R]) -> R:
        plain = None if request is None else request.model_dump(mode="json")
        return read_reply(kind, await self._send(operation, plain))
