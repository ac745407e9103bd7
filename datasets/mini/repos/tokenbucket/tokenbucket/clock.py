"""Clocks."""

from __future__ import annotations


class ManualClock:
    """A clock that is moved by hand, for tests and simulations."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self.now += seconds
