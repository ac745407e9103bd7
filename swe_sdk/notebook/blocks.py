"""What a repr is made of, apart from how it is drawn: as HTML (``render_html``) or as plain text (``render_text``).

Texts may hold anything; whoever draws them makes them safe. Blocks may hold more than is shown: drawing bounds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from swe_sdk.notebook.palette import Style

Look = Literal["plain", "strong", "muted", "code"]
SHOWN_ROWS = 50
"""Rows of a table, files of a patch, lanes of a timeline."""


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of text within a line."""

    text: object
    look: Look = "plain"


@dataclass(frozen=True, slots=True)
class Badge:
    """A word of the palette, with its sign and colour; ``text`` in place of its label."""

    style: Style
    text: str = ""


Inline: TypeAlias = str | Word | Badge
Cell: TypeAlias = Inline | tuple[Inline, ...] | int | float | None
EMPTY_CELLS: tuple[Cell, ...] = (None, "", (), Word(""), Word("", "code"))


@dataclass(frozen=True, slots=True)
class Line:
    """Pieces of text, one after the other."""

    parts: tuple[Inline, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values. Those whose value is None or empty are left out."""

    pairs: tuple[tuple[str, Cell], ...]

    @property
    def told(self) -> tuple[tuple[str, Cell], ...]:
        """Those that say something."""
        return tuple((name, value) for name, value in self.pairs if value not in EMPTY_CELLS)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head. ``total`` is how many there are, where ``rows`` are only the first of them."""

    head: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    total: int | None = None
    title: str = ""

    @property
    def count(self) -> int:
        """How many rows there are, shown or not."""
        return len(self.rows) if self.total is None else self.total

    def first(self, limit: int) -> Table:
        """The first rows, without columns in which none of them says anything."""
        rows = self.rows[:limit]
        columns = [n for n in range(len(self.head)) if not rows or any(row[n] not in EMPTY_CELLS for row in rows)]
        kept = [tuple(row[n] for n in columns) for row in rows]
        return Table(tuple(self.head[n] for n in columns), kept, self.count, self.title)


@dataclass(frozen=True, slots=True)
class Pre:
    """Text as somebody wrote it; a long one loses its middle. ``wrap``: prose, whose lines are folded."""

    text: str
    title: str = ""
    wrap: bool = False
    lines: int = 60


@dataclass(frozen=True, slots=True)
class Diff:
    """Lines of a unified diff of one file, the first of them its header."""

    lines: Sequence[str]
    header: int = 0
    """How many lines that is: up to the first ``@@``."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a :class:`Bar`."""

    style: Style
    size: float
    shown: str
    """The size in words."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Parts of a whole, with a legend."""

    segments: tuple[Segment, ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """One row of :class:`Lanes`: from ``start`` for ``length``, both in seconds since the first of them."""

    label: str
    style: Style
    start: float
    length: float
    note: Cell = None
    counted_s: float | None = None
    """What is written beside it, where that is another time than its length: without what it was parked for."""

    @property
    def shown_s(self) -> float:
        """What is written beside it."""
        return self.length if self.counted_s is None else self.counted_s


@dataclass(frozen=True, slots=True)
class Lanes:
    """What happened when."""

    spans: tuple[Span, ...]
    total_s: float


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader must not miss, and what to do about it."""

    style: Style
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that open at a click."""

    summary: tuple[Inline, ...]
    blocks: tuple[Block, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Folds:
    """Many of them, such as one for each file."""

    folds: Sequence[Fold]
    what: str


Block: TypeAlias = Line | Facts | Table | Pre | Diff | Bar | Lanes | Note | Fold | Folds


@dataclass(frozen=True, slots=True)
class View:
    """A whole repr."""

    title: tuple[Inline, ...]
    blocks: tuple[Block | None, ...] = field(default=())
    """None is nothing: for what an object may not have."""
