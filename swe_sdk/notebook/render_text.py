"""A view as plain text for a terminal: no control character of others, at most :data:`LIMIT_LINES` lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from swe_sdk.notebook.amounts import clipped, many, middle_cut, seconds
from swe_sdk.notebook.blocks import (
    Badge,
    Bar,
    Block,
    Cell,
    Diff,
    Facts,
    Fold,
    Folds,
    Inline,
    Lanes,
    Line,
    Note,
    Pre,
    Span,
    Table,
    View,
    Word,
)
from swe_sdk.shown import neutral

LIMIT_LINES = 120
_WIDTH, _NARROW = 120, 12
_LINE = 400
_CELL, _WIDE_CELL, _FEW_COLUMNS = 48, 90, 3
_SHOWN_ROWS = 20
_SHOWN_PARTS = 12
_SHOWN_FACTS = 30
_SHOWN_LINES = 40
_BAR = 50


def render_text(view: View) -> str:
    """The view as lines."""
    lines = [_line(view.title), *(line for block in view.blocks if block is not None for line in _block(block))]
    shown = lines if len(lines) <= LIMIT_LINES else [*lines[: LIMIT_LINES - 1], f"... {many(len(lines), 'line')}"]
    return "\n".join(line.rstrip() for line in shown)


def _block(block: Block) -> Iterable[str]:
    draw = _DRAW[type(block)]
    return draw(block)


def _line(parts: Sequence[Inline]) -> str:
    return _flat("".join(map(_inline, parts[:_SHOWN_PARTS])), _LINE)


def _flat(text: str, limit: int) -> str:
    """One line, with its blanks as they are."""
    return clipped(neutral(text).replace("\n", " ").replace("\t", " "), limit)


def _inline(part: Inline) -> str:
    if isinstance(part, Badge):
        return f"{part.style.glyph} {part.text or part.style.label}"
    return str(part.text) if isinstance(part, Word) else part


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.3g}"
    return _line(cell if isinstance(cell, tuple) else (cell,))


def _facts(facts: Facts) -> Iterator[str]:
    line = " "
    for name, value in facts.told[:_SHOWN_FACTS]:
        fact = f" {_flat(name, _CELL)}: {_cell(value)} "
        if len(line) > 1 and len(line) + len(fact) > _WIDTH:
            yield line
            line = " "
        line += fact
    if line.strip():
        yield line


def _table(whole: Table) -> Iterator[str]:
    table = whole.first(_SHOWN_ROWS)
    limit = _CELL if len(table.head) > _FEW_COLUMNS else _WIDE_CELL
    rows = [[_flat(_cell(cell), limit) for cell in row] for row in table.rows]
    if table.title and table.count:
        yield f"  {_flat(table.title, _LINE)}"
    if rows:
        widths = _fitting([max(map(len, column)) for column in zip(table.head, *rows, strict=True)])
        for row in (table.head, *rows):
            yield "".join(f"  {clipped(cell, width).ljust(width)}" for cell, width in zip(row, widths, strict=True))
    yield from _more(table.count - len(rows))


def _fitting(widths: list[int]) -> list[int]:
    """Widths of columns that fit side by side: the widest gives way."""
    while sum(widths) + 2 * len(widths) > _WIDTH and max(widths) > _NARROW:
        widths[widths.index(max(widths))] -= 1
    return widths


def _pre(pre: Pre) -> Iterator[str]:
    head, left_out, tail = middle_cut(pre.text.removesuffix("\n").split("\n"), min(pre.lines, _SHOWN_LINES))
    if pre.title:
        yield f"  {_flat(pre.title, _LINE)}"
    yield from map(_quoted, head)
    if left_out:
        yield f"  │ ... {many(left_out, 'line')} left out ..."
    yield from map(_quoted, tail)


def _quoted(line: str) -> str:
    """A line as it is, behind a mark, so that nobody takes it for one of ours."""
    return f"  │ {clipped(neutral(line), _LINE)}"


def _diff(diff: Diff) -> Iterator[str]:
    yield from map(_quoted, diff.lines[:_SHOWN_LINES])
    yield from _more(len(diff.lines) - _SHOWN_LINES, "line")


def _bar(bar: Bar) -> Iterator[str]:
    whole = sum(segment.size for segment in bar.segments)
    signs = "".join(segment.style.glyph * round(_BAR * segment.size / whole) for segment in bar.segments if whole)
    legend = "  ".join(f"{s.style.glyph} {s.style.label} {s.shown}" for s in bar.segments[:_SHOWN_ROWS])
    yield f"  {_flat(f'{bar.title}: {legend}' if bar.title else legend, _LINE)}"
    if len(set(signs)) > 1:  # else it would say nothing
        yield f"  {signs}"


def _lanes(lanes: Lanes) -> Iterator[str]:
    spans = lanes.spans[:_SHOWN_ROWS]
    width = max((len(_flat(span.label, _CELL)) for span in spans), default=0)
    for span in spans:
        yield f"  {_flat(span.label, _CELL).ljust(width)}  {_track(span, lanes.total_s)}  {_cell(span.note)}"
    yield from _more(len(lanes.spans) - len(spans))


def _track(span: Span, total_s: float) -> str:
    before = min(round(_BAR * span.start / (total_s or 1.0)), _BAR - 1)
    long = max(1, min(round(_BAR * span.length / (total_s or 1.0)), _BAR - before))
    return f"{' ' * before}{'━' * long}{' ' * (_BAR - before - long)}  {seconds(span.shown_s).rjust(8)}"


def _note(note: Note) -> Iterator[str]:
    first, *others = note.text.split("\n")[:_SHOWN_LINES]
    label = f"{note.style.label}: " if note.style.label else ""
    yield f"  {note.style.glyph} {_flat(f'{label}{first}', _LINE)}"
    yield from map(_quoted, others)
    if note.remedy:
        yield f"    what to do: {_flat(note.remedy, _LINE)}"


def _fold(fold: Fold) -> Iterator[str]:
    """Its summary; what is within too, where it stands open."""
    yield f"  {_line(fold.summary)}"
    if fold.is_open:
        for block in fold.blocks:
            yield from (f"  {line}" for line in _block(block))


def _folds(folds: Folds) -> Iterator[str]:
    for fold in islice(folds.folds, _SHOWN_ROWS):
        yield from _fold(fold)
    yield from _more(len(folds.folds) - _SHOWN_ROWS, folds.what)


def _more(count: int, what: str = "") -> Iterator[str]:
    if count > 0:
        yield f"  and {many(count, f'more {what}') if what else f'{count:,} more'}"


_DRAW: dict[type, Callable[[Any], Iterable[str]]] = {
    Bar: _bar,
    Diff: _diff,
    Facts: _facts,
    Fold: _fold,
    Folds: _folds,
    Lanes: _lanes,
    Line: lambda line: [f"  {_line(line.parts)}"],
    Note: _note,
    Pre: _pre,
    Table: _table,
}
