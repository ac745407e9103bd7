"""One bucket."""

from __future__ import annotations

import time
from typing import Callable


class TokenBucket:
    """Holds up to ``capacity`` tokens and gains ``rate`` of them a second."""

    def __init__(self, rate: float, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        if rate <= 0:
            raise ValueError("rate must be positive")
        if capacity < 1:
            raise ValueError("capacity must be at least 1")
        self.rate = rate
        self.capacity = capacity
        self._clock = clock
        self._tokens = capacity
        self._updated = clock()

    @property
    def available(self) -> int:
        """Whole tokens that could be taken now."""
        self._refill()
        return self._tokens

    @property
    def full(self) -> bool:
        return self.available >= self.capacity

    def take(self, tokens: int = 1) -> bool:
        """Take ``tokens`` if they are all there; otherwise take none and return False."""
        self._check(tokens)
        self._refill()
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def wait_time(self, tokens: int = 1) -> float:
        """Seconds until ``tokens`` can be taken, provided that nobody else takes any."""
        self._check(tokens)
        self._refill()
        missing = tokens - self._tokens
        return missing / self.rate if missing > 0 else 0.0

    def _check(self, tokens: int) -> None:
        if not 1 <= tokens <= self.capacity:
            raise ValueError(f"tokens must be between 1 and {self.capacity}")

    def _refill(self) -> None:
        now = self._clock()
        gained = int((now - self._updated) * self.rate)
        self._tokens = min(self.capacity, self._tokens + gained)
        self._updated = now
