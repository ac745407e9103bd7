"""The cache itself."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Callable, NamedTuple

from .stats import Stats


class _Entry(NamedTuple):
    value: Any
    expires_at: float


class TTLCache:
    """At most ``maxsize`` entries, each for ``ttl`` seconds unless ``set`` says otherwise."""

    def __init__(self, maxsize: int, ttl: float, clock: Callable[[], float] = time.monotonic) -> None:
        if maxsize < 1:
            raise ValueError("maxsize must be at least 1")
        if ttl <= 0:
            raise ValueError("ttl must be positive")
        self.maxsize = maxsize
        self.ttl = ttl
        self.stats = Stats()
        self._clock = clock
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()  # least recently used first

    def set(self, key: Hashable, value: Any, ttl: float | None = None) -> None:
        """Store ``value``; a key that is already there gets the new value and a new time to live."""
        if ttl is not None and ttl <= 0:
            raise ValueError("ttl must be positive")
        expires_at = self._clock() + (self.ttl if ttl is None else ttl)
        if key not in self._entries and len(self._entries) >= self.maxsize:
            self._entries.popitem(last=False)
            self.stats.evictions += 1
        self._entries[key] = _Entry(value, expires_at)
        self._entries.move_to_end(key)

    def get(self, key: Hashable, default: Any = None) -> Any:
        """Return the value of ``key``, which thereby becomes the most recently used."""
        entry = self._live(key)
        if entry is None:
            self.stats.misses += 1
            return default
        self.stats.hits += 1
        self._entries.move_to_end(key)
        return entry.value

    def delete(self, key: Hashable) -> bool:
        """Drop ``key``; say whether it was there."""
        live = self._live(key) is not None
        self._entries.pop(key, None)
        return live

    def clear(self) -> None:
        self._entries.clear()

    def keys(self) -> list[Hashable]:
        """The live keys, least recently used first."""
        now = self._clock()
        return [key for key, entry in self._entries.items() if entry.expires_at > now]

    def __contains__(self, key: Hashable) -> bool:
        return self._live(key) is not None

    def __len__(self) -> int:
        return len(self._entries)

    def _live(self, key: Hashable) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires_at <= self._clock():
            del self._entries[key]
            self.stats.expirations += 1
            return None
        return entry
