"""What a benchmark returns: rows with a value, perhaps its ratio to another row's, and what is aimed at."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


class Unavailable(Exception):
    """Something that a row would need is not on this machine; the message says what."""


@dataclass(frozen=True)
class Target:
    """A bound for a row's ratio, or for its value where it has no ratio."""

    bound: float
    is_least: bool = False
    """Whether the figure should be at least, and not at most, ``bound``."""

    def holds(self, figure: float) -> bool:
        """Whether ``figure`` keeps to it."""
        return figure >= self.bound if self.is_least else figure <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.bound:g}"


@dataclass(frozen=True)
class Row:
    """One measured figure. ``value`` is None where it could not be measured; ``note`` says why."""

    name: str
    value: float | None = None
    unit: str = ""
    least: float | None = None
    """The smallest of the measurements, where ``value`` is their median."""
    ratio: float | None = None
    to: str = ""
    """What ``ratio`` is to: the name of something measured in the same run."""
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or nothing to judge."""
        figure = self.value if self.ratio is None else self.ratio
        return None if self.target is None or figure is None else self.target.holds(figure)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        target = None if self.target is None else str(self.target)
        return {**asdict(self), "target": target, "met": self.met}


def missing(name: str, error: Unavailable) -> Row:
    """A row that says why it holds nothing."""
    return Row(name, note=str(error))


@dataclass(frozen=True)
class Section:
    """All rows of one benchmark, and how busy the machine was."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    load: tuple[float, float] = (0.0, 0.0)
    """Load average of the last minute, before and after."""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**asdict(self), "rows": [row.to_dict() for row in self.rows]}
