"""The one exception of the package."""

from __future__ import annotations


class TemplateError(ValueError):
    """The template, or a name in it, makes no sense."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
