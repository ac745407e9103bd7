"""Long lists that stay on disk: a page of them is read when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

from swe_sdk.store.rows import Page

T = TypeVar("T")
_PAGE = 500


class Paged(Sequence[T], Generic[T]):
    """A sequence behind a query: ``fetch(offset, limit)`` gives a page of it."""

    def __init__(self, fetch: Callable[[int, int], Page[T]], what: str) -> None:
        self._fetch = fetch
        self._what = what

    def __len__(self) -> int:
        return self._fetch(0, 0).total or 0

    def __iter__(self) -> Iterator[T]:
        offset = 0
        while rows := self._fetch(offset, _PAGE).rows:
            yield from rows
            offset += len(rows)

    @overload
    def __getitem__(self, key: int) -> T: ...
    @overload
    def __getitem__(self, key: slice) -> list[T]: ...
    def __getitem__(self, key: int | slice) -> T | list[T]:
        """One by its place (``IndexError`` where there is none), or some of them."""
        if isinstance(key, slice):
            return self._slice(range(len(self))[key])
        place = key if key >= 0 else len(self) + key
        rows = self._fetch(place, 1).rows if place >= 0 else ()
        if not rows:
            raise IndexError(f"there is no {self._what} number {key}")
        return rows[0]

    def _slice(self, places: range) -> list[T]:
        if not places:
            return []
        low, high = min(places), max(places)
        found: list[T] = []
        while len(found) <= high - low:
            rows = self._fetch(low + len(found), min(_PAGE, high - low + 1 - len(found))).rows
            if not rows:
                break
            found += rows
        return [found[place - low] for place in places if place - low < len(found)]

    def __repr__(self) -> str:
        return f"<{len(self)} {self._what}s>"
