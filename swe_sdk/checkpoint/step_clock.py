"""What of an episode's budget is spent: time runs while it works, and stands while it is parked. Pure."""

from __future__ import annotations

from swe_sdk.model.budget import Budget


class StepClock:
    """Charges a :class:`~swe_sdk.model.budget.Budget` with differences of a monotonic ``now`` (seconds)."""

    def __init__(self, budget: Budget, now: float) -> None:
        self._budget = budget
        self._since = now
        self.is_suspended = False

    def suspend(self, now: float) -> None:
        """From now on it is parked; again is without effect."""
        if not self.is_suspended:
            self._budget, self._since, self.is_suspended = self.budget(now), now, True

    def go_on(self, now: float) -> None:
        """From now on it works; again is without effect."""
        if self.is_suspended:
            self._budget, self._since, self.is_suspended = self.budget(now), now, False

    def budget(self, now: float) -> Budget:
        """Total, spent and parked as of now."""
        passed = now - self._since
        return self._budget.park(passed) if self.is_suspended else self._budget.spend(passed)

    def ends_at(self, now: float) -> float:
        """When the budget is spent, if it goes on as it does; infinity while suspended or without limit."""
        remaining = self.budget(now).remaining_s
        return float("inf") if self.is_suspended or remaining is None else now + remaining
