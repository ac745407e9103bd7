"""Which lines of a file are shown: around a number, an offset, a word that was found, or at an end."""

from __future__ import annotations

from typing import NamedTuple

from swe_sdk.dashboard.state import State
from swe_sdk.store.windows import TextLine, WindowedFile

WINDOW = 400
_BEFORE = 120


class Window(NamedTuple):
    """Some lines, numbered from 0. ``here`` is the number of the one that was asked for."""

    lines: list[TextLine]
    first: int
    here: int | None
    size: int
    find: str
    ignore_case: bool
    found_at: int | None
    """Offset of what was looked for; None where nothing was, or where it is not there."""
    is_missing: bool
    """Whether it was looked for in vain."""

    @property
    def next_first(self) -> int:
        """Number of the line after these."""
        return self.first + len(self.lines)

    @property
    def is_end(self) -> bool:
        """Whether nothing comes after."""
        last = self.lines[-1] if self.lines else None
        return last is None or (not last.is_cut and last.offset + len(last.data) + 1 >= self.size)


def window_of(file: WindowedFile, state: State) -> Window:
    """The lines that a state asks for (``line`` from 1, ``byte``, ``end``, ``find`` from offset ``from`` on)."""
    find, ignore_case = state.get("find")[:1000], state.get("case") != "1"
    found, missing = None, False
    here: int | None = None
    if state.get("line"):
        here = max(0, state.number("line", 1) - 1)
    elif state.get("byte"):
        here = file.line_of(min(state.number("byte"), max(0, file.size - 1)))
    elif state.get("end") == "1":
        return _end(file, find, ignore_case)
    elif find:
        found = file.find(find, state.number("from"), ignore_case=ignore_case)
        missing = found is None
        here = file.line_of(found) if found is not None else None
    first = max(0, here - _BEFORE) if here is not None else 0
    lines = file.lines(first, WINDOW)
    if here is not None and not lines:  # beyond the end
        return _end(file, find, ignore_case)
    return Window(lines, first, here, file.size, find, ignore_case, found, missing)


def _end(file: WindowedFile, find: str, ignore_case: bool) -> Window:
    first = max(0, file.line_count() - WINDOW)
    lines = file.lines(first, WINDOW)
    here = first + len(lines) - 1 if lines else None
    return Window(lines, first, here, file.size, find, ignore_case, None, False)
