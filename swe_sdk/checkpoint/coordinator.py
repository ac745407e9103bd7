"""One checkpoint over all participants. It keeps no state: any call may be made again, by any other coordinator."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import anyio
from pydantic import Field

from swe_sdk.checkpoint import messages
from swe_sdk.checkpoint.codes import refuse
from swe_sdk.checkpoint.messages import EpisodeId, Kind, PrepareReport, Request, Status
from swe_sdk.checkpoint.participant import Participant
from swe_sdk.checkpoint.telemetry import operation, span
from swe_sdk.checkpoint.waiting import Clock, within
from swe_sdk.errors import CoordinationError, SweError
from swe_sdk.model.record import Record

PREPARE_ORDER: tuple[Kind, ...] = ("environment", "model", "agent", "resources")
RETIRE_ORDER: tuple[Kind, ...] = ("environment", "agent", "model", "resources")
REPLY_GRACE_S = 5.0
"""How much longer than its deadline a participant may take to answer."""
CLEANUP_S = 30.0
"""What the clean-up after a failed restore gets at least."""
T = TypeVar("T")
Ask = Callable[[Participant], Awaitable[T]]


class Prepared(Record):
    """What came of a prepare, by participant; a stage after one that is not ready was not asked."""

    ready: bool
    reports: dict[str, PrepareReport]

    @property
    def restarts(self) -> frozenset[EpisodeId]:
        """Episodes that the checkpoint cannot hold."""
        return frozenset(one for report in self.reports.values() for one in report.restarts)

    @property
    def episodes(self) -> tuple[EpisodeId, ...]:
        """Episodes that it can hold: what to commit."""
        found = {one: None for report in self.reports.values() for one in report.episodes}
        return tuple(one for one in found if one not in self.restarts)

    @property
    def blockers(self) -> dict[str, tuple[str, ...]]:
        """What it waits for, by participant."""
        return {name: report.blockers for name, report in self.reports.items() if not report.ready}


class Released(Record):
    """What came of a release."""

    released: int = 0
    failures: dict[str, str] = Field(default_factory=dict)
    """By participant; what they did not free they free the next time."""


class Coordinator:
    """Calls participants, by their names, in the order that keeps the cut consistent.

    ``requires`` names kinds of which there must be one. Raises ``CoordinationError`` with what each participant said.
    """

    def __init__(
        self, participants: Mapping[str, Participant], *, requires: Iterable[Kind] = (), clock: Clock = time.time
    ) -> None:
        self.participants = dict(participants)
        self._requires = frozenset(requires)
        self._clock = clock
        self._kinds: dict[str, Kind] = {}

    async def discover(self) -> dict[str, Status]:
        """Ask all for their status; ``checkpoint_error`` where a required kind is missing."""
        found = await self._ask("status", self.participants, lambda one: one.status(), self._clock() + 60.0)
        self._kinds.update({name: status.kind for name, status in found.items()})
        missing = self._requires - set(self._kinds.values())
        if missing:
            raise refuse("checkpoint_error", f"there is no participant of kind {', '.join(sorted(missing))}")
        return found

    async def prepare(self, request: messages.PrepareRequest) -> Prepared:
        """Stage by stage; it stops at the first that is not ready. Whatever comes of it, resume afterwards."""
        reports: dict[str, PrepareReport] = {}
        with self._operation("prepare", request):
            await self.discover()
            for stage in await self._stages(PREPARE_ORDER):
                kind = next((self._kinds[name] for name in stage), "none")
                with span(f"coordinate.prepare.{kind}", id=request.checkpoint_id):
                    replies = await self._ask("prepare", stage, lambda one: one.prepare(request), request.deadline_ts)
                reports.update({name: reply.report for name, reply in replies.items()})
                if not all(report.ready for report in reports.values()):
                    return Prepared(ready=False, reports=reports)
        return Prepared(ready=True, reports=reports)

    async def renew(self, request: messages.RenewRequest) -> None:
        """Extend all leases."""
        with self._operation("renew", request):
            await self._ask("renew", self.participants, lambda one: one.renew(request), request.deadline_ts)

    async def commit(self, request: messages.CommitRequest) -> dict[str, messages.CommitReply]:
        """All at once; after a failure the same call may be made again."""
        with self._operation("commit", request):
            return await self._ask("commit", self.participants, lambda one: one.commit(request), request.deadline_ts)

    async def resume(self, request: messages.ResumeRequest) -> None:
        """In the reverse order, at all, whatever fails; then raise what failed."""
        failures: dict[str, str] = {}
        with self._operation("resume", request):
            for stage in await self._stages(PREPARE_ORDER[::-1]):
                _, failed = await self._try(stage, lambda one: one.resume(request), request.deadline_ts)
                failures.update(failed)
            if failures:
                raise CoordinationError("resume", failures)

    async def restore(self, request: messages.RestoreRequest) -> int:
        """All at once. Where one fails, the next attempts are retired at all of them and all are opened again, so that
        nothing goes on from half a checkpoint; returns the number of records."""
        with self._operation("restore", request):
            try:
                replies = await self._ask(
                    "restore", self.participants, lambda one: one.restore(request), request.deadline_ts
                )
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._give_up(request)
                raise
        return sum(reply.restored for reply in replies.values())

    async def _give_up(self, request: messages.RestoreRequest) -> None:
        deadline = max(request.deadline_ts, self._clock() + CLEANUP_S)
        shared: dict[str, Any] = {"checkpoint_id": request.checkpoint_id, "deadline_ts": deadline}
        following = tuple(one.model_copy(update={"attempt": one.attempt + 1}) for one in request.episode_ids)
        if following:
            await self._ordered(messages.RetireRequest(**shared, episode_ids=following))
        for stage in await self._stages(PREPARE_ORDER[::-1]):
            await self._try(stage, lambda one: one.resume(messages.ResumeRequest(**shared)), deadline)

    async def retire(self, request: messages.RetireRequest) -> None:
        """In the order in which work flows down; at all, whatever fails."""
        with self._operation("retire", request):
            failures = await self._ordered(request)
            if failures:
                raise CoordinationError("retire", failures)

    async def forget(self, request: messages.ForgetRequest) -> None:
        """As :meth:`retire`."""
        with self._operation("forget", request):
            failures = await self._ordered(request)
            if failures:
                raise CoordinationError("forget", failures)

    async def release(self, request: messages.ReleaseRequest) -> Released:
        """At all, as well as it goes; nothing is raised for what one of them could not do."""
        with self._operation("release", request):
            replies, failures = await self._try(
                self.participants, lambda one: one.release(request), request.deadline_ts
            )
        return Released(released=sum(reply.released for reply in replies.values()), failures=failures)

    # -- how --------------------------------------------------------------------------------------------------------

    def _operation(self, name: str, request: Request) -> Any:
        return operation(f"coordinate.{name}", kind="coordinator", id=request.checkpoint_id)

    async def _stages(self, order: Iterable[Kind]) -> list[dict[str, Participant]]:
        """Participants by kind, in that order; last come those that do not tell their kind now."""
        unknown = {name: one for name, one in self.participants.items() if name not in self._kinds}
        told, _ = await self._try(unknown, lambda one: one.status(), self._clock() + REPLY_GRACE_S)
        self._kinds.update({name: status.kind for name, status in told.items()})
        stages = [self._of(wanted) for wanted in order]
        return [stage for stage in (*stages, self._of(None)) if stage]

    def _of(self, kind: Kind | None) -> dict[str, Participant]:
        return {name: one for name, one in self.participants.items() if self._kinds.get(name) == kind}

    async def _ordered(self, request: messages.RetireRequest | messages.ForgetRequest) -> dict[str, str]:
        def ask(one: Participant) -> Awaitable[Any]:
            return one.retire(request) if isinstance(request, messages.RetireRequest) else one.forget(request)

        failures: dict[str, str] = {}
        for stage in await self._stages(RETIRE_ORDER):
            _, failed = await self._try(stage, ask, request.deadline_ts)
            failures.update(failed)
        return failures

    async def _ask(self, name: str, whom: Mapping[str, Participant], ask: Ask[T], deadline_ts: float) -> dict[str, T]:
        replies, failures = await self._try(whom, ask, deadline_ts)
        if failures:
            raise CoordinationError(name, failures)
        return replies

    async def _try(
        self, whom: Mapping[str, Participant], ask: Ask[T], deadline_ts: float
    ) -> tuple[dict[str, T], dict[str, str]]:
        """Ask all at once; replies and failures, by name."""
        replies: dict[str, T] = {}
        failures: dict[str, str] = {}

        async def one(name: str) -> None:
            try:
                with within(max(0.0, deadline_ts - self._clock()) + REPLY_GRACE_S, "the wait for a reply"):
                    replies[name] = await ask(whom[name])
            except SweError as error:
                failures[name] = str(error)
            except Exception as error:  # noqa: BLE001  a defect of one must not keep the others from being opened
                failures[name] = repr(error)

        async with anyio.create_task_group() as tasks:
            for name in whom:
                tasks.start_soon(one, name)
        return {name: replies[name] for name in whom if name in replies}, dict(sorted(failures.items()))
