"""The tree of a template: every node writes itself into a list of strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import TemplateError
from .filters import FILTERS, escape


@dataclass(frozen=True)
class Scope:
    """What names mean, and whether values are escaped."""

    names: Mapping[str, Any]
    autoescape: bool

    def with_name(self, name: str, value: Any) -> Scope:
        names: dict[str, Any] = {**self.names, name: value}
        return Scope(names, self.autoescape)


@dataclass(frozen=True)
class Expression:
    path: list[str]
    filters: list[str]
    line: int

    def value(self, scope: Scope) -> Any:
        if self.path[0] not in scope.names:
            raise TemplateError(f"unknown name {self.path[0]!r}", self.line)
        value = scope.names[self.path[0]]
        for part in self.path[1:]:
            value = self._part(value, part)
        for name in self.filters:
            value = FILTERS[name](value)
        return value

    def _part(self, value: Any, part: str) -> Any:
        try:
            if isinstance(value, Mapping):
                return value[part]
            return value[int(part)] if part.isdigit() else getattr(value, part)
        except (AttributeError, LookupError, TypeError):
            raise TemplateError(f"no {part!r} in {'.'.join(self.path)}", self.line) from None


@dataclass
class Text:
    text: str

    def write(self, scope: Scope, out: list[str]) -> None:
        out.append(self.text)


@dataclass
class Output:
    expression: Expression

    def write(self, scope: Scope, out: list[str]) -> None:
        value = self.expression.value(scope)
        out.append(escape(value) if scope.autoescape else str(value))


@dataclass
class Block:
    nodes: list[Any] = field(default_factory=list)

    def write(self, scope: Scope, out: list[str]) -> None:
        for node in self.nodes:
            node.write(scope, out)


@dataclass
class For:
    name: str
    items: Expression
    body: Block = field(default_factory=Block)

    def write(self, scope: Scope, out: list[str]) -> None:
        for item in self.items.value(scope):
            self.body.write(scope.with_name(self.name, item), out)


@dataclass
class If:
    test: Expression
    body: Block = field(default_factory=Block)
    orelse: Block = field(default_factory=Block)

    def write(self, scope: Scope, out: list[str]) -> None:
        (self.body if self.test.value(scope) else self.orelse).write(scope, out)
