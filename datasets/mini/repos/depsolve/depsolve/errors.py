"""What can be wrong with a graph."""

from __future__ import annotations


class GraphError(ValueError):
    """The text of a graph cannot be read."""


class CycleError(GraphError):
    """Packages that need each other."""

    def __init__(self, path: list[str]) -> None:
        super().__init__("dependency cycle: " + " -> ".join(path))
        self.path = path
