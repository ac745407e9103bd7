"""Sections as a table for people (Markdown, padded so that it also reads well as text) and as JSON."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, Section

BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
_HEADER = ("what", "median", "least", "unit", "ratio", "to", "target", "met")
_NUMBERS = (1, 2, 4)


@dataclass(frozen=True)
class Conditions:
    """What the figures were measured on."""

    processors: int
    kernel: str
    python: str
    user: str
    state: str
    """File system that the boxes were on."""
    date: str
    settings: str

    @classmethod
    def here(cls, state: Path, settings: str) -> Conditions:
        """This machine, now."""
        return cls(
            processors=len(os.sched_getaffinity(0)),
            kernel=platform.release(),
            python=platform.python_version(),
            user="root" if os.geteuid() == 0 else "an ordinary user",
            state=_file_system(state),
            date=time.strftime("%Y-%m-%d"),
            settings=settings,
        )

    @property
    def sentence(self) -> str:
        """For readers."""
        return (
            f"Measured on {self.date}: {self.processors} processors, Linux {self.kernel}, Python {self.python}, "
            f"as {self.user}, state on {self.state}, {self.settings} settings."
        )


def to_markdown(conditions: Conditions, sections: Iterable[Section]) -> str:
    """The conditions, then a table for each section."""
    parts = [conditions.sentence]
    parts += [section_markdown(section) for section in sections]
    return "\n\n".join(parts) + "\n"


def section_markdown(section: Section) -> str:
    """Heading, load, table, notes."""
    before, after = section.load
    load = f"Load average {before:.1f} before and {after:.1f} after; {section.seconds:.0f} s."
    notes = [f"- {row.name}: {row.note}" for row in section.rows if row.note]
    blocks = [f"### {section.title}", load, _table(section.rows), "\n".join(notes)]
    return "\n\n".join(block for block in blocks if block)


def to_json(conditions: Conditions, sections: Iterable[Section]) -> dict[str, Any]:
    """Everything, as plain data."""
    return {"conditions": asdict(conditions), "sections": [section.to_dict() for section in sections]}


def put_into(path: Path, text: str) -> None:
    """Write ``text`` to a file; between its two marker lines, where it has them."""
    old = path.read_text("utf-8") if path.exists() else ""
    before, begin, rest = old.partition(BEGIN)
    _replaced, end, after = rest.partition(END)
    page = f"{before}{BEGIN}\n\n{text}\n{END}{after}" if begin and end else text
    path.write_text(page, "utf-8")


def _table(rows: Sequence[Row]) -> str:
    return grid(_HEADER, [_cells(row) for row in rows], _NUMBERS)


def grid(header: Sequence[str], lines: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """A padded table; the columns ``numbers`` are flush right."""
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    rule = [("-" * (w - 1) + ":") if column in numbers else "-" * w for column, w in enumerate(widths)]
    return "\n".join(_line(line, widths, numbers) for line in (header, rule, *lines))


def _cells(row: Row) -> tuple[str, ...]:
    met = {None: "", True: "yes", False: "**no**"}[row.met]
    target = "" if row.target is None else str(row.target)
    return (row.name, _figure(row.value), _figure(row.least), row.unit, _figure(row.ratio), row.to, target, met)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Collection[int]) -> str:
    padded = [
        cell.rjust(width) if column in numbers else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def _figure(number: float | None) -> str:
    """Three significant digits, without an exponent."""
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _file_system(path: Path) -> str:
    """Type of the file system that ``path`` is on."""
    real = path.resolve()
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    within = [(len(fields[1]), fields[2]) for fields in mounts if real.is_relative_to(fields[1])]
    return max(within)[1]
