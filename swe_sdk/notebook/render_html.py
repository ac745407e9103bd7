"""A view as static HTML: no script, no widget, nothing that asks another host; at most :data:`LIMIT_BYTES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from swe_sdk.notebook.amounts import clipped, many, middle_cut, seconds
from swe_sdk.notebook.blocks import (
    SHOWN_ROWS,
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
    Segment,
    Span,
    Table,
    View,
    Word,
)
from swe_sdk.notebook.css import style_rules
from swe_sdk.notebook.html import EMPTY, Html, element, joined, stylesheet
from swe_sdk.notebook.palette import Style

LIMIT_BYTES = 200_000
_FRAMES_BYTES = 40_000
"""What is left for the style sheet and for what stands once: titles, facts, notes, heads of tables and folds."""
_WORD = 300
_NOTE = 2000
_SHOWN_FACTS = 30
_SHOWN_PARTS = 12
_SHORT = 36
_LINE = 500
_DIFF_LINES = 400
"""Of one file; whoever wants more reads the patch."""


def render_html(view: View) -> str:
    """The view as one element with its style sheet."""
    page = _Page(LIMIT_BYTES - _FRAMES_BYTES)
    blocks = [page.block(block) for block in view.blocks if block is not None]
    title = element("div", *map(_inline, view.title[:_SHOWN_PARTS]), class_="t")
    return element("div", stylesheet(style_rules()), title, *blocks, class_="swe").markup


class _Page:
    """Draws blocks while there is room; what repeats itself (rows, lines, files) ends where there is none."""

    def __init__(self, room_bytes: int) -> None:
        self._room = room_bytes
        self._draw: dict[type, Callable[[Any], Html]] = {
            Bar: self._bar,
            Diff: self._diff,
            Facts: self._facts,
            Fold: self._fold,
            Folds: self._folds,
            Lanes: self._lanes,
            Line: lambda line: element("div", *map(_inline, line.parts[:_SHOWN_PARTS])),
            Note: self._note,
            Pre: self._pre,
            Table: self._table,
        }

    def block(self, block: Block) -> Html:
        return self._draw[type(block)](block)

    def _fitting(self, pieces: Iterable[Html]) -> Iterator[Html]:
        for piece in pieces:
            if piece.size_bytes > self._room:
                self._room = 0  # so that nothing smaller takes a place further down
                return
            self._room -= piece.size_bytes
            yield piece

    def _facts(self, facts: Facts) -> Html:
        pairs = (
            element("span", element("span", f"{clipped(name, _WORD)} ", class_="s"), _cell(value))
            for name, value in facts.told[:_SHOWN_FACTS]
        )
        shown = list(self._fitting(pairs))
        return element("div", *_spaced(shown), class_="f") if shown else EMPTY

    def _table(self, whole: Table) -> Html:
        table = whole.first(SHOWN_ROWS)
        kinds = [_kind(table, column) for column in range(len(table.head))]
        rows = list(self._fitting(_row(row, kinds) for row in table.rows))
        names = (element("th", clipped(name, _WORD), class_=kind) for name, kind in zip(table.head, kinds, strict=True))
        body = element("table", element("thead", element("tr", *names)), element("tbody", *rows)) if rows else EMPTY
        title = element("div", clipped(table.title, _WORD), class_="s") if table.title and table.count else EMPTY
        return joined(title, body, _more(table.count - len(rows)))

    def _pre(self, pre: Pre) -> Html:
        head, left_out, tail = middle_cut(pre.text.removesuffix("\n").split("\n"), pre.lines)
        gap = [element("span", f"… {many(left_out, 'line')} left out …\n", class_="s")] if left_out else []
        drawn = (*map(_pre_line, head), *gap, *map(_pre_line, tail))
        lines = list(self._fitting(drawn))
        title = element("div", clipped(pre.title, _WORD), class_="s") if pre.title else EMPTY
        rest = _more(len(drawn) - len(lines), "line")
        return joined(title, element("pre", *lines, class_="w" if pre.wrap else None), rest)

    def _diff(self, diff: Diff) -> Html:
        shown = enumerate(diff.lines[:_DIFF_LINES])
        lines = list(self._fitting(_diff_line(line, is_header=at < diff.header) for at, line in shown))
        return joined(element("pre", *lines), _more(len(diff.lines) - len(lines), "line"))

    def _bar(self, bar: Bar) -> Html:
        whole = sum(segment.size for segment in bar.segments) or 1.0
        segments = [segment for segment in bar.segments if segment.size > 0]
        parts = list(self._fitting(_part(segment, whole) for segment in segments[:SHOWN_ROWS]))
        legend = _spaced([element("span", _badge(Badge(s.style)), f" {s.shown}") for s in bar.segments[:SHOWN_ROWS]])
        title = element("div", clipped(bar.title, _WORD), class_="s") if bar.title else EMPTY
        return joined(title, element("div", *parts, class_="bar"), element("div", *legend, class_="f"))

    def _lanes(self, lanes: Lanes) -> Html:
        total = lanes.total_s or 1.0
        rows = list(self._fitting(_lane(span, total) for span in lanes.spans[:SHOWN_ROWS]))
        table = element("table", element("tbody", *rows)) if rows else EMPTY
        return joined(table, _more(len(lanes.spans) - len(rows)))

    def _note(self, note: Note) -> Html:
        remedy = ("\n", element("strong", "What to do: "), clipped(note.remedy, _NOTE)) if note.remedy else ()
        words = (_badge(Badge(note.style)), "  ", clipped(note.text, _NOTE), *remedy)
        return joined(*self._fitting([element("div", *words, class_="note", style=_colours(note.style))]))

    def _fold(self, fold: Fold) -> Html:
        summary = element("summary", *map(_inline, fold.summary[:_SHOWN_PARTS]))
        self._room -= summary.size_bytes
        return element("details", summary, *map(self.block, fold.blocks), open=fold.is_open)

    def _folds(self, folds: Folds) -> Html:
        drawn = [self._fold(fold) for fold in folds.folds[:SHOWN_ROWS] if self._room > 0]
        return joined(*drawn, _more(len(folds.folds) - len(drawn), folds.what))


def _row(row: tuple[Cell, ...], kinds: list[str | None]) -> Html:
    return element("tr", *(element("td", _cell(cell), class_=kind) for cell, kind in zip(row, kinds, strict=True)))


def _kind(table: Table, column: int) -> str | None:
    """``n`` for numbers, ``k`` for what stays on one line: signs of the palette, ids, short texts."""
    cells = [row[column] for row in table.rows if row[column] is not None]
    if cells and all(isinstance(cell, int | float) for cell in cells):
        return "n"
    return "k" if all(map(_stays_on_one_line, cells)) else None


def _stays_on_one_line(cell: Cell) -> bool:
    if isinstance(cell, str | Word):
        return len(str(cell.text) if isinstance(cell, Word) else cell) <= _SHORT
    return isinstance(cell, Badge | int | float)


def _cell(cell: Cell) -> Html:
    if isinstance(cell, tuple):
        return joined(*map(_inline, cell[:_SHOWN_PARTS]))
    if isinstance(cell, Word | Badge):
        return _inline(cell)
    return joined(_number(cell) if isinstance(cell, int | float) else clipped(cell or "", _WORD))


def _number(value: float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}"


def _inline(part: Inline) -> Html:
    if isinstance(part, Badge):
        return _badge(part)
    if isinstance(part, str):
        return joined(clipped(part, _WORD))
    text = clipped(str(part.text), _WORD)
    if part.look == "muted":
        return element("span", text, class_="s")
    return joined(text) if part.look == "plain" else element("code" if part.look == "code" else "strong", text)


def _badge(badge: Badge) -> Html:
    text = clipped(badge.text or badge.style.label, _WORD)
    return element("span", f"{badge.style.glyph} {text}", class_="b", style=_colours(badge.style, text=True))


def _colours(style: Style, *, text: bool = False) -> str:
    light, dark = (style.light_text, style.dark_text) if text else (style.light, style.dark)
    return f"--l:{light};--d:{dark}"


def _part(segment: Segment, whole: float) -> Html:
    width = f"width:{100 * segment.size / whole:.2f}%"
    shown = f"{segment.style.label} {segment.shown}"
    return element("div", title=clipped(shown, _WORD), style=f"{width};{_colours(segment.style)}")


def _lane(span: Span, total: float) -> Html:
    start = min(max(span.start / total, 0.0), 0.99)  # what takes no time at the end is seen too
    length = min(max(span.length / total, 0.0), 1.0 - start)
    place = f"margin-left:{100 * start:.2f}%;width:{100 * length:.2f}%;{_colours(span.style)}"
    track = element("div", element("div", style=place), class_="track")
    return element(
        "tr",
        element("td", clipped(span.label, _WORD)),
        element("td", track),
        element("td", seconds(span.shown_s), class_="n"),
        element("td", _cell(span.note)),
    )


def _pre_line(line: str) -> Html:
    return joined(clipped(line, _LINE), "\n")


_SIGNS = {"+": "p", "-": "m", "@": "h"}


def _diff_line(line: str, *, is_header: bool) -> Html:
    return element("span", clipped(line, _LINE), "\n", class_="h" if is_header else _SIGNS.get(line[:1], "c"))


def _more(count: int, what: str = "") -> Html:
    if count <= 0:
        return EMPTY
    return element("div", f"and {many(count, f'more {what}') if what else f'{count:,} more'}", class_="s")


def _spaced(pieces: list[Html]) -> list[Html | str]:
    """With blanks between them, for pages without a style sheet."""
    return [part for piece in pieces for part in (piece, " ")]
