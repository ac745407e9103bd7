"""The shell around the pure machine that all participants share: one lock, a lease, and work that outlives its caller.

A subclass says what is at work (:meth:`BaseParticipant._report`), what to export and how to install it; when that is
called, and what a repeated or a late call gets, is decided here and in :mod:`swe_sdk.checkpoint.protocol.machine`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

from swe_sdk.checkpoint import messages
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport
from swe_sdk.checkpoint.participants.calls import call_of, typed
from swe_sdk.checkpoint.participants.marks import Marks
from swe_sdk.checkpoint.participants.saving import read, write
from swe_sdk.checkpoint.protocol.machine import Call, Control, Step, begin, expiry, finish
from swe_sdk.checkpoint.records import CheckpointRecord
from swe_sdk.checkpoint.settings import CheckpointSettings
from swe_sdk.checkpoint.telemetry import operation, span
from swe_sdk.checkpoint.waiting import Background, Changes, Clock, within

R = TypeVar("R", bound=CheckpointRecord)
POLL_S = 1.0
LEASE_POLL_S = 5.0
"""How often a lease is looked at: its clock may be set forward while we wait by another."""
RESUME_S = 5.0
"""What a resume gets at least to clean up, however late it comes."""
_log = logging.getLogger("swe_sdk.checkpoint")


class BaseParticipant(Generic[R]):
    """One participant, open between ``async with`` and its end. Implements :class:`..participant.Participant`.

    ``clock`` gives unix seconds.
    """

    kind: ClassVar[Kind]
    record_type: type[R]
    poll_s: ClassVar[float] = POLL_S
    """How often readiness is looked at, beside every change that is reported."""

    def __init__(self, instance: str, *, settings: CheckpointSettings | None = None, clock: Clock = time.time) -> None:
        self.instance = instance
        self.settings = settings or CheckpointSettings()
        self.control = Control()
        self.marks = Marks()
        self.changes = Changes()
        self._opened = Changes()  # apart: all that is parked waits for it, and need not hear of anything else
        self._clock = clock
        self._lock = anyio.Lock()
        self._export_under_way: Background[messages.CommitReply] | None = None
        self._tasks: TaskGroup | None = None

    # -- what a subclass says ---------------------------------------------------------------------------------------

    def _on_close(self) -> None:
        """Admission was closed."""

    def _on_open(self) -> None:
        """Admission was opened."""

    def _report(self) -> PrepareReport:
        """What blocks now, and what this checkpoint cannot hold."""
        raise NotImplementedError

    async def _export(self, checkpoint_id: str, scope: frozenset[EpisodeId] | None) -> Sequence[R]:
        """What to write of the episodes in scope; None = all but the restarts."""
        raise NotImplementedError

    async def _drop_unclaimed(self, scope: frozenset[EpisodeId], also: Collection[str] = ()) -> None:
        """All was written: free what was restored, not claimed, and not in scope, or a session of ``also``."""

    async def _install(self, records: Sequence[R], checkpoint_id: str) -> None:
        """Take restored records over, all or nothing. It is shielded."""
        raise NotImplementedError

    async def _settle(self) -> None:
        """What must be cleaned up before admission opens."""

    async def _stop(self, episodes: Sequence[EpisodeId]) -> None:
        """Stop the work of retired attempts, and free their state."""

    async def _release(self, kept: frozenset[str]) -> int:
        """Free what only checkpoints outside ``kept`` need; returns how many things went."""
        return 0

    def _extras(self) -> dict[str, Any]:
        """What else :meth:`status` tells."""
        return {}

    def _manifest_extras(self) -> dict[str, Any]:
        """What else the manifest has, once all was exported."""
        return {}

    # -- lifetime ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._keep_lease)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(None, None, None)
        self._tasks = None

    @property
    def is_closed(self) -> bool:
        """Whether a checkpoint is open here, and so admission closed."""
        return self.control.is_closed

    async def until_open(self) -> None:
        """Wait for the end of an open checkpoint; when this returns none is open, and nothing has come between."""
        while self.is_closed:
            await self._opened.wait()

    def require_open(self) -> None:
        """``admission_closed`` while a checkpoint is open."""
        if self.is_closed:
            raise refuse(
                "admission_closed", f"checkpoint {self.control.checkpoint_id} is open", remedy="retry after resume"
            )

    async def _keep_lease(self) -> None:
        """Open again when the lease has run out: whoever closed us is gone."""
        while True:
            call, lease = expiry(self.control, self._clock()), self.control.lease_expires_at
            if call is None:
                left = None if lease is None else lease - self._clock()
                await self.changes.wait(None if left is None else min(max(0.0, left), LEASE_POLL_S))
                continue
            try:
                await self._resume(call)
                _log.warning("lease_expired: %s %s resumed %s", self.kind, self.instance, call.checkpoint_id)
            except Exception as error:  # noqa: BLE001  tried again, whatever it is: closed for ever is the worst
                _log.warning("%s %s stays closed: %s", self.kind, self.instance, error)
                await anyio.sleep(POLL_S)

    # -- operations -------------------------------------------------------------------------------------------------

    async def status(self) -> messages.Status:
        """Where it stands; waits for nobody."""
        return messages.Status(
            kind=self.kind,
            instance=self.instance,
            phase=self.control.phase,
            checkpoint_id=self.control.checkpoint_id,
            lease_expires_at=self.control.lease_expires_at,
            retired_rollouts=self.marks.as_dict(),
            report=self._report() if self.is_closed else None,
            extras=self._extras(),
        )

    async def prepare(self, request: messages.PrepareRequest) -> messages.PrepareReply:
        """Close admission; the report says ready, or what blocked until the deadline."""
        call = call_of("prepare", request)
        with self._operation(call):
            async with self._locked(call):
                step = self._begin(call)
            if step.action == "replay":
                return typed(step.reply, messages.PrepareReply)
            try:
                report = await self._until_ready(call)
            except Exception:  # whatever it was, admission opens again, and the caller hears of it
                self._apply(finish(self.control, call, "failed"))
                raise
            reply = messages.PrepareReply(checkpoint_id=request.checkpoint_id, report=report)
            self._apply(finish(self.control, call, "done" if report.ready else "unready", reply))
            return reply

    async def renew(self, request: messages.RenewRequest) -> messages.RenewReply:
        """Extend the lease; waits for nobody."""
        call = call_of("renew", request)
        with self._operation(call):
            self._begin(call)
            lease = self.control.lease_expires_at
            assert lease is not None
            return messages.RenewReply(checkpoint_id=request.checkpoint_id, lease_expires_at=lease)

    async def commit(self, request: messages.CommitRequest) -> messages.CommitReply:
        """Export and write; past the deadline that goes on, and the next call awaits it."""
        call = call_of("commit", request)
        with self._operation(call):
            async with self._locked(call):
                step = self._begin(call)
                if step.action == "replay":
                    return typed(step.reply, messages.CommitReply)
                if step.action == "work":
                    self._start_export(call, request)
                export = self._export_under_way
            assert export is not None
            with within(self._left(call), "commit"):
                return await export.result()

    async def restore(self, request: messages.RestoreRequest) -> messages.RestoreReply:
        """Read, check and install; what fails leaves the participant open and as it was."""
        call = call_of("restore", request)
        with self._operation(call):
            async with self._locked(call):
                step = self._begin(call)
                if step.action == "replay":
                    return typed(step.reply, messages.RestoreReply)
                try:
                    count = await self._read_and_install(call, request)
                except BaseException:
                    self._apply(finish(self.control, call, "failed"))
                    raise
                reply = messages.RestoreReply(checkpoint_id=request.checkpoint_id, restored=count)
                self._apply(finish(self.control, call, "done", reply))
                return reply

    async def resume(self, request: messages.ResumeRequest) -> messages.ResumeReply:
        """Open admission, and refuse this id from now on."""
        call = call_of("resume", request)
        with self._operation(call):
            await self._resume(call)
            return messages.ResumeReply(checkpoint_id=request.checkpoint_id, phase=self.control.phase)

    async def retire(self, request: messages.RetireRequest) -> messages.RetireReply:
        """Mark first, then stop."""
        call = call_of("retire", request)
        with self._operation(call):
            async with self._locked(call):
                self._begin(call)
                self.marks.retire(request.episode_ids)
                self.changes.notify()
                with within(self._left(call), "retire"):
                    await self._stop(request.episode_ids)
            return messages.RetireReply(checkpoint_id=request.checkpoint_id, retired=self.marks.of(request.episode_ids))

    async def forget(self, request: messages.ForgetRequest) -> messages.ForgetReply:
        """Drop marks."""
        call = call_of("forget", request)
        with self._operation(call):
            async with self._locked(call):
                self._begin(call)
                forgotten = self.marks.forget(request.rollout_ids)
            return messages.ForgetReply(checkpoint_id=request.checkpoint_id, forgotten=forgotten)

    async def release(self, request: messages.ReleaseRequest) -> messages.ReleaseReply:
        """Free what only dropped checkpoints need. Under the lock: the next prepare waits for it."""
        call = call_of("release", request)
        with self._operation(call):
            async with self._locked(call):
                step = self._begin(call)
                if step.action == "replay":
                    return typed(step.reply, messages.ReleaseReply)
                with within(self._left(call), "release"):
                    count = await self._release(frozenset(request.kept))
                reply = messages.ReleaseReply(checkpoint_id=request.checkpoint_id, kept=request.kept, released=count)
                self._apply(finish(self.control, call, "done", reply))
                return reply

    # -- how --------------------------------------------------------------------------------------------------------

    def _operation(self, call: Call) -> Any:
        attributes = {"id": call.checkpoint_id, "instance": self.instance, "phase": self.control.phase}
        return operation(call.operation, kind=self.kind, **attributes)

    def _left(self, call: Call) -> float:
        left = call.deadline_ts - self._clock()
        return max(left, RESUME_S) if call.operation == "resume" else left

    @asynccontextmanager
    async def _locked(self, call: Call) -> AsyncIterator[None]:
        """The lock that serializes transitions; a lease that has run out is settled first."""
        with within(self._left(call), f"the wait for {call.operation}"):
            await self._lock.acquire()
        try:
            overdue = expiry(self.control, self._clock())
            if overdue is not None and call.operation != "resume":
                await self._open(overdue)
            yield
        finally:
            self._lock.release()

    def _begin(self, call: Call) -> Step:
        grace = self.settings.lease_grace_seconds
        step = begin(self.control, call, now=self._clock(), grace_s=grace)
        self._apply(step.control)
        return step

    def _apply(self, control: Control) -> None:
        """Make a new state the current one, and let everybody know."""
        was_closed, self.control = self.control.is_closed, control
        if control.is_closed and not was_closed:
            self._on_close()
        if was_closed and not control.is_closed:
            self._on_open()
            self._opened.notify()
        self.changes.notify()

    async def _until_ready(self, call: Call) -> PrepareReport:
        """The first report that is ready, or the last one before the deadline."""
        with span("wait_ready", id=call.checkpoint_id):
            while True:
                self._require_current(call)
                report, left = self._report(), self._left(call)
                if report.ready or left <= 0:
                    return report
                await self.changes.wait(min(self.poll_s, left))

    def _require_current(self, call: Call) -> None:
        if self.control.checkpoint_id != call.checkpoint_id:
            raise refuse("stale_checkpoint", f"checkpoint {call.checkpoint_id} was resumed meanwhile")

    def _start_export(self, call: Call, request: messages.CommitRequest) -> None:
        try:
            self._require_scope(request)
        except BaseException:
            self._apply(finish(self.control, call, "failed"))
            raise
        if self._tasks is None:
            raise RuntimeError("a participant works within `async with`")
        self._export_under_way = Background()
        self._tasks.start_soon(self._write, call, request, self._export_under_way)

    def _require_scope(self, request: messages.CommitRequest) -> None:
        report = self._report()
        if not report.ready:
            raise refuse("checkpoint_error", f"no longer ready: {', '.join(report.blockers[:5])}")
        both = set(report.restarts) & set(request.episode_ids or ())
        if both:
            raise refuse("restart_in_scope", f"restarts: {', '.join(sorted(map(str, both))[:5])}")

    async def _write(
        self, call: Call, request: messages.CommitRequest, export: Background[messages.CommitReply]
    ) -> None:
        """The export, in a task of its own; ``export`` hears of its end, whatever that is."""
        try:
            with export.scope:
                reply = await self._export_and_write(call, request)
                self._apply(finish(self.control, call, "done", reply))
                export.succeed(reply)
            if export.is_done and request.episode_ids is not None:
                await self._drop_unclaimed(frozenset(request.episode_ids))
        except Exception as error:  # noqa: BLE001  it is raised to whoever awaits the export
            if export.is_done:
                _log.warning("%s %s could not free what was not claimed: %s", self.kind, self.instance, error)
                return
            self._apply(finish(self.control, call, "failed"))
            export.fail(error)
        finally:
            if not export.is_done:
                self._apply(finish(self.control, call, "failed"))
                export.fail(refuse("stale_checkpoint", f"checkpoint {call.checkpoint_id} was resumed while written"))

    async def _export_and_write(self, call: Call, request: messages.CommitRequest) -> messages.CommitReply:
        scope = None if request.episode_ids is None else frozenset(request.episode_ids)
        with span("export", id=call.checkpoint_id) as current:
            records = await self._export(call.checkpoint_id, scope)
            current.set_attribute("records", len(records))
        return await write(self.kind, self.instance, request, records, extras=self._manifest_extras())

    async def _read_and_install(self, call: Call, request: messages.RestoreRequest) -> int:
        with within(self._left(call), "restore"):
            records = await read(self.kind, self.instance, request, self.record_type)
        lease = self.control.lease_expires_at or 0.0
        with span("install", id=call.checkpoint_id, records=len(records)):
            with anyio.move_on_after(max(0.0, lease - self._clock()), shield=True) as scope:
                await self._install(records, call.checkpoint_id)
        if scope.cancelled_caught:
            raise refuse("deadline_exceeded", "the lease ended while records were installed")
        return len(records)

    async def _resume(self, call: Call) -> None:
        async with self._locked(call):
            await self._open(call)

    async def _open(self, call: Call) -> None:
        """Fence the id; open if it is the open one. Under the lock."""
        if self._begin(call).action != "work":
            return
        try:
            with within(self._left(call), "the clean-up before it opens"):
                await self._end_export()
                await self._settle()
        except BaseException:
            self._apply(finish(self.control, call, "failed"))
            raise
        self._apply(finish(self.control, call, "done"))

    async def _end_export(self) -> None:
        """Give up what has no manifest yet, and wait until it is over."""
        if self._export_under_way is not None:
            self._export_under_way.scope.cancel()
            await self._export_under_way.ended()
            self._export_under_way = None
