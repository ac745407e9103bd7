"""How many seconds a rollout may spend, and has."""

from __future__ import annotations

from pydantic import Field

from swe_sdk.model.record import Record
from swe_sdk.shown import Shown


class Budget(Shown, Record):
    """Total, spent and parked seconds. Parked time (held for a checkpoint) is counted and never charged.

    Pure: whoever owns a clock charges it with differences of that monotonic clock.
    """

    total_s: float | None = Field(default=None, ge=0)
    """None = without limit."""
    spent_s: float = Field(default=0.0, ge=0)
    parked_s: float = Field(default=0.0, ge=0)

    @property
    def remaining_s(self) -> float | None:
        """Seconds left, never below 0; None without a limit."""
        return None if self.total_s is None else max(0.0, self.total_s - self.spent_s)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.remaining_s == 0.0

    def spend(self, seconds: float) -> Budget:
        """The budget after ``seconds`` of work."""
        return self.model_copy(update={"spent_s": self.spent_s + max(0.0, seconds)})

    def park(self, seconds: float) -> Budget:
        """The budget after ``seconds`` of being parked."""
        return self.model_copy(update={"parked_s": self.parked_s + max(0.0, seconds)})
