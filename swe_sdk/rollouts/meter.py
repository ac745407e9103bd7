"""The one budget of a rollout, and deadlines that stand still while it is parked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import anyio

from swe_sdk.model.budget import Budget

Clock = Callable[[], float]
"""Seconds on a monotonic clock."""


class Meter:
    """Charges a budget with the differences of a monotonic clock, whatever the stage.

    *idle* time (waiting to be admitted, building a shared environment) is nobody's; *working* time is spent; *parked*
    time is counted and never charged, whoever works meanwhile. Deadlines made by :meth:`deadline` end with the budget
    or with their own cap, and stand still while it is parked.
    """

    def __init__(self, budget: Budget, clock: Clock = time.monotonic) -> None:
        self._settled = budget
        self._clock = clock
        self._since = clock()
        self._working = self._parked = 0
        self._deadlines: list[Deadline] = []
        self.idle_s = 0.0
        """Seconds that were nobody's, so far."""

    @property
    def budget(self) -> Budget:
        """What is spent and parked by now."""
        return self._with(self._clock() - self._since)

    @property
    def remaining_s(self) -> float | None:
        """Seconds left by now; None without a limit."""
        return self.budget.remaining_s

    @contextmanager
    def working(self) -> Iterator[None]:
        """Within, time is spent."""
        self._settle()
        self._working += 1
        try:
            yield
        finally:
            self._settle()
            self._working -= 1

    @contextmanager
    def parked(self) -> Iterator[None]:
        """Within, nothing is charged and no deadline comes nearer. May be entered by several at a time."""
        self._settle()
        self._parked += 1
        for deadline in self._deadlines:
            deadline.suspend()
        try:
            yield
        finally:
            self._settle()
            self._parked -= 1
            for deadline in self._deadlines if not self._parked else ():
                deadline.resume()

    @contextmanager
    def deadline(self, cap_s: float | None, *, bound_by_budget: bool = True) -> Iterator[Deadline]:
        """Cancel what is within after ``cap_s`` seconds, or when the budget is spent; ask the deadline which it was."""
        deadline = Deadline(cap_s, self.remaining_s if bound_by_budget else None)
        self._deadlines.append(deadline)
        if self._parked:
            deadline.suspend()
        try:
            with deadline.scope:
                yield deadline
        finally:
            self._deadlines.remove(deadline)

    def _settle(self) -> None:
        now = self._clock()
        passed_s = now - self._since
        if not self._working and not self._parked:
            self.idle_s += max(0.0, passed_s)
        self._settled, self._since = self._with(passed_s), now

    def _with(self, passed_s: float) -> Budget:
        if self._parked:
            return self._settled.park(passed_s)
        return self._settled.spend(passed_s) if self._working else self._settled


class OutOfTime(TimeoutError):
    """A stage ran into its own cap (``timeout``) or the end of the budget (``budget_spent``)."""

    def __init__(self, kind: Literal["timeout", "budget_spent"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Deadline:
    """A cancel scope that ends at a cap or with the budget, whichever comes first."""

    def __init__(self, cap_s: float | None, budget_s: float | None) -> None:
        self.kind: Literal["timeout", "budget_spent"] = "timeout"
        """What it would mean to run into it."""
        if budget_s is not None and (cap_s is None or budget_s <= cap_s):
            self.kind, cap_s = "budget_spent", budget_s
        self._left_s = math.inf if cap_s is None else cap_s
        self.scope = anyio.CancelScope(deadline=anyio.current_time() + self._left_s)
        self._suspended = False

    @property
    def remaining_s(self) -> float | None:
        """Seconds until it comes; None = never."""
        left_s = self._left_s if self._suspended else self.scope.deadline - anyio.current_time()
        return None if math.isinf(left_s) else max(0.0, left_s)

    @property
    def passed(self) -> bool:
        """Whether it came while its block ran."""
        return self.scope.cancel_called

    def check(self, what: str) -> None:
        """After its block: raise :class:`OutOfTime` where it cut that short."""
        if self.scope.cancelled_caught:
            cause = "the budget was spent" if self.kind == "budget_spent" else "its time ran out"
            raise OutOfTime(self.kind, f"{what}: {cause}")

    def suspend(self) -> None:
        """It does not come nearer from now on."""
        if not self._suspended:
            self._left_s, self._suspended = self.scope.deadline - anyio.current_time(), True
            self.scope.deadline = math.inf

    def resume(self) -> None:
        """It goes on."""
        if self._suspended:
            self.scope.deadline, self._suspended = anyio.current_time() + self._left_s, False
