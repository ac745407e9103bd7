"""Suites that a runner shows by indentation alone, as the official parsers of such runners follow them."""

from __future__ import annotations

from dataclasses import dataclass, field

from swe_sdk.recipes.parsers.ids import IdBudget
from swe_sdk.recipes.parsers.text import indent_of


@dataclass(slots=True)
class Suites:
    """The suites that the present line is in; every indented line that is no result opens one."""

    budget: IdBudget
    _open: list[tuple[int, str]] = field(default_factory=list)

    def enter(self, line: str) -> None:
        """Open the suite that ``line`` names; those that are not less indented end. Other lines change nothing."""
        indent = indent_of(line)
        if indent > 0:
            while self._open and self._open[-1][0] >= indent:
                self._open.pop()
            self._open.append((indent, line.strip()))

    def __bool__(self) -> bool:
        return bool(self._open)

    def name(self, test: str) -> str | None:
        """The id of a test in them, or None where the budget for ids is spent."""
        return self.budget.join(" - ", (*(name for _, name in self._open), test))
