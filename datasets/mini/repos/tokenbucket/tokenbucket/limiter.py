"""A bucket for each key."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Callable

from .bucket import TokenBucket


class Limiter:
    """Limits every key on its own; buckets that are full again are forgotten by ``prune``."""

    def __init__(self, rate: float, capacity: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.capacity = capacity
        self._clock = clock
        self._buckets: dict[Hashable, TokenBucket] = {}

    def allow(self, key: Hashable, tokens: int = 1) -> bool:
        return self._bucket(key).take(tokens)

    def retry_after(self, key: Hashable, tokens: int = 1) -> float:
        return self._bucket(key).wait_time(tokens)

    def prune(self) -> int:
        """Forget the keys whose buckets are full; return how many there were."""
        full = [key for key, bucket in self._buckets.items() if bucket.full]
        for key in full:
            del self._buckets[key]
        return len(full)

    def __len__(self) -> int:
        return len(self._buckets)

    def _bucket(self, key: Hashable) -> TokenBucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(self.rate, self.capacity, self._clock)
        return bucket
