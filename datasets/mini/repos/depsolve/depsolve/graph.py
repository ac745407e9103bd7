"""Packages and what they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .errors import GraphError


class Graph:
    """A directed graph that remembers the order in which packages were named."""

    def __init__(self) -> None:
        self._needs: dict[str, dict[str, None]] = {}

    @classmethod
    def from_text(cls, text: str) -> Graph:
        """Read lines of the form ``package: dependency, dependency``; ``#`` starts a comment."""
        graph = cls()
        for number, line in enumerate(text.splitlines(), start=1):
            line = line.split("#", 1)[0].strip()
            if not line:
                continue
            package, colon, needs = line.partition(":")
            if not package.strip() or not colon:
                raise GraphError(f"line {number}: expected 'package: dependencies'")
            graph.add(package.strip(), (name.strip() for name in needs.split(",") if name.strip()))
        return graph

    def add(self, package: str, needs: Iterable[str] = ()) -> None:
        """Add ``package``, or more dependencies of it."""
        known = self._needs.setdefault(package, {})
        for name in needs:
            known[name] = None

    def needs(self, package: str) -> tuple[str, ...]:
        return tuple(self._needs.get(package, ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._needs)

    def __len__(self) -> int:
        return len(self._needs)
