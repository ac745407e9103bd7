"""Every call of a fake provider goes through here: it is counted, logged, and goes wrong if a fault is due."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import anyio

from swe_sdk.errors import CreateFailed, SandboxLost, TransferFailed
from swe_sdk.testing.faults import Fault, FaultPlan, Operation

T = TypeVar("T")


class Mortal(Protocol):
    """A box that can be made to die."""

    is_lost: bool

    @property
    def id(self) -> str:
        """For messages and the log."""

    async def lose(self) -> None:
        """Let it die."""


@dataclass
class Call:
    """One entry of the log."""

    op: Operation
    subject: str
    """What :attr:`Fault.match <swe_sdk.testing.faults.Fault.match>` is searched in."""
    box_id: str | None = None
    outcome: str = "pending"
    """``done``, the name of the exception that was raised, or ``pending`` while it has not returned."""
    fault: Fault | None = None


class Injector:
    """Counters, log and faults of one provider and its boxes. Safe to use from several tasks and threads."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.calls: Counter[Operation] = Counter()
        self.log: list[Call] = []
        self._plan = FaultPlan(faults)
        self._lock = threading.Lock()

    async def call(
        self,
        op: Operation,
        subject: str,
        action: Callable[[], Awaitable[T]],
        *,
        box: Mortal | None = None,
        when_lost: Callable[[float], Awaitable[T]] | None = None,
    ) -> T:
        """Log one call, and do it with the fault that is due; ``when_lost`` replaces it where the box dies under it."""
        entry = self._begin(op, subject, box)
        try:
            done = await _perform(entry, action, box, when_lost)
        except BaseException as error:
            entry.outcome = type(error).__name__
            raise
        entry.outcome = "done"
        return done

    def _begin(self, op: Operation, subject: str, box: Mortal | None) -> Call:
        with self._lock:
            entry = Call(op, subject, box.id if box else None, fault=self._plan.due(op, subject))
            self.calls[op] += 1
            self.log.append(entry)
        return entry


async def _perform(
    entry: Call,
    action: Callable[[], Awaitable[T]],
    box: Mortal | None,
    when_lost: Callable[[float], Awaitable[T]] | None,
) -> T:
    if box is not None and box.is_lost and entry.op not in ("close", "status"):
        raise SandboxLost(f"sandbox {box.id} is lost (injected)")
    if entry.fault is None:
        return await action()
    if entry.fault.error == "lost" and when_lost is not None:
        return await when_lost(entry.fault.delay_s)
    await anyio.sleep(entry.fault.delay_s)
    if entry.fault.error is None:
        return await action()
    await _go_wrong(entry.fault, action, box)
    raise _error_of(entry.fault)


async def _go_wrong(fault: Fault, action: Callable[[], Awaitable[object]], box: Mortal | None) -> None:
    if fault.error == "hang":
        await anyio.sleep_forever()
    if fault.error == "reply_lost":
        await action()
    if fault.error == "lost" and box is not None:
        await box.lose()


def _error_of(fault: Fault) -> BaseException | type[BaseException]:
    """What the caller hears."""
    if not isinstance(fault.error, str) and fault.error is not None:
        return fault.error
    message = f"{fault.op}: {'its reply was lost' if fault.error == 'reply_lost' else 'the sandbox is lost'} (injected)"
    if fault.op == "create":
        return CreateFailed(message)
    is_transfer = fault.op in ("read", "write", "upload", "download")
    return TransferFailed(message) if is_transfer and fault.error == "reply_lost" else SandboxLost(message)
