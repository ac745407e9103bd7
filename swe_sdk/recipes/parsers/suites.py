"""Suites that a runner shows by indentation alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.text import indent_of


@dataclass(slots=True)
class Suites:
    """The suites that the present line is in, the outermost first; ids are their names and the test's, joined."""

    budget: IdBudget
    separator: str
    _open: list[tuple[int, str]] = field(default_factory=list)
    _prefix: str | None = ""

    def enter(self, line: str) -> None:
        """Open the suite that an indented ``line`` names. Those that are not less indented end."""
        indent = indent_of(line)
        if indent > 0:
            self.leave(indent)
            self._open.append((indent, line.strip()))
            self._prefix = None

    def leave(self, indent: int) -> None:
        """End the suites that are not less indented than that."""
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
            self._prefix = None

    def clear(self) -> None:
        """End all suites."""
        self.leave(0)

    def __bool__(self) -> bool:
        return bool(self._open)

    def name(self, test: str) -> str | None:
        """The id of a test in them, or None where the budget for ids is spent."""
        if not self._open:
            return self.budget.join("", "", test)
        if self.budget.spent:
            return None
        if self._prefix is None:
            self._prefix = self.separator.join(name for _, name in self._open)
        return self.budget.join(self._prefix, self.separator, test)
