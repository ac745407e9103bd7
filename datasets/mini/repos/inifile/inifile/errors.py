"""Errors of the reader."""

from __future__ import annotations


class IniError(ValueError):
    """A line that cannot be read."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
