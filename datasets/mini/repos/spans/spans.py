"""Sets of whole numbers as spans."""

from __future__ import annotations

from collections.abc import Iterator


class SpanSet:
    """Spans of whole numbers, sorted; both ends belong to a span."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        """Add all numbers from first to last."""
        if last < first:
            raise ValueError(f"a span cannot end ({last}) before it begins ({first})")
        kept = []
        for low, high in self._spans:
            if high < first or last < low:
                kept.append((low, high))
            else:
                first, last = min(first, low), max(last, high)
        self._spans = sorted([*kept, (first, last)])

    def __contains__(self, number: int) -> bool:
        return any(low <= number <= high for low, high in self._spans)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._spans)

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self._spans)
