"""The face of the package."""

from __future__ import annotations

from typing import Any

from .nodes import Scope
from .parser import parse


class Template:
    """A parsed template; ``render`` may be called many times."""

    def __init__(self, text: str, autoescape: bool = True) -> None:
        self.autoescape = autoescape
        self._root = parse(text)

    def render(self, **names: Any) -> str:
        out: list[str] = []
        self._root.write(Scope(names, self.autoescape), out)
        return "".join(out)
