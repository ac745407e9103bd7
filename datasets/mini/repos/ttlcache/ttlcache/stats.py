"""Counters of a cache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Stats:
    """What happened to a cache since it was made (or since ``reset``)."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    expirations: int = 0

    @property
    def hit_ratio(self) -> float:
        lookups = self.hits + self.misses
        return self.hits / lookups if lookups else 0.0

    def reset(self) -> None:
        self.hits = self.misses = self.evictions = self.expirations = 0
