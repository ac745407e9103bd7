"""Bounded output: the head and the tail of a stream, whatever its length."""

from __future__ import annotations

from collections import deque


class HeadTail:
    """Keeps the first and the last half of ``limit`` bytes, and counts what was dropped between them."""

    def __init__(self, limit: int) -> None:
        self._head_room = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, chunk: bytes) -> None:
        """Add a piece of the stream."""
        self.total += len(chunk)
        room = self._head_room - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk and self._tail_limit:
            self._tail.append(chunk)
            self._tail_size += len(chunk)
            while self._tail_size - len(self._tail[0]) >= self._tail_limit:
                self._tail_size -= len(self._tail.popleft())

    def result(self) -> tuple[bytes, int]:
        """The kept bytes, and how many were dropped after the head."""
        tail = b"".join(self._tail)[-self._tail_limit :] if self._tail_limit else b""
        kept = bytes(self._head) + tail
        return kept, self.total - len(kept)
