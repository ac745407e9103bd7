"""Faults to inject: which call goes wrong, and how."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Operation = Literal[
    "create", "exec", "read", "write", "upload", "download", "status", "close", "snapshot", "delete_snapshot", "probe"
]
Trouble = Literal["hang", "lost", "reply_lost"]


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    It concerns the calls of ``op`` whose subject matches the regular expression ``match`` (searched for): the command
    of an ``exec``, the path in the box of a transfer, the JSON of the spec of a ``create``, the id of a box or snapshot
    otherwise. Of these, the ``nth`` (counted from 1), or all with ``nth=None``.

    ``error``:

    * an exception (an instance, or a class without arguments): raised instead of doing it;
    * ``"hang"``: the call never returns, whatever timeout it was given; only cancellation ends it;
    * ``"lost"``: the box dies under the call. An ``exec`` runs for ``delay_s`` and then has status ``lost``; anything
      else raises ``SandboxLost`` (``create``: ``CreateFailed``), and so does every later use of the box;
    * ``"reply_lost"``: it is done, but the caller hears ``SandboxLost`` (``create``: ``CreateFailed``; a transfer:
      ``TransferFailed``). The box goes on;
    * None: nothing but the delay of ``delay_s`` seconds before it is done.
    """

    op: Operation
    nth: int | None = 1
    match: str = ""
    error: BaseException | type[BaseException] | Trouble | None = None
    delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.op not in get_args(Operation):
            raise ValueError(f"no operation {self.op!r}; one of {', '.join(get_args(Operation))}")
        if isinstance(self.error, str) and self.error not in get_args(Trouble):
            raise ValueError(f"no trouble {self.error!r}; an exception, or one of {', '.join(get_args(Trouble))}")
        if self.nth is not None and self.nth < 1:
            raise ValueError("nth counts from 1; None means always")
        if self.error is None and not self.delay_s:
            raise ValueError("a fault needs an error or a delay")
        re.compile(self.match)

    def concerns(self, op: str, subject: str) -> bool:
        """Whether it is about calls like this one."""
        return op == self.op and re.search(self.match, subject) is not None


class FaultPlan:
    """Counts the calls that each fault is about, and says which fault is due. Safe to use from several threads."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.faults = tuple(faults)
        self._seen = [0] * len(self.faults)
        self._lock = threading.Lock()

    def due(self, op: str, subject: str) -> Fault | None:
        """Count this call; the first fault that is due on it."""
        with self._lock:
            due = [self._is_due(number, op, subject) for number in range(len(self.faults))]
        return next((fault for fault, hit in zip(self.faults, due, strict=True) if hit), None)

    def _is_due(self, number: int, op: str, subject: str) -> bool:
        fault = self.faults[number]
        if not fault.concerns(op, subject):
            return False
        self._seen[number] += 1
        return fault.nth is None or fault.nth == self._seen[number]
