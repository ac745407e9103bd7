"""Looking at a file of any size through a window: by bytes, by lines, from the end, or where a word stands.

What is held in memory depends on the window, and not on the file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from swe_sdk.errors import InputError
from swe_sdk.model.record import Record
from swe_sdk.store.blocks import BLOCK_BYTES, open_blocks

LONGEST_LINE_BYTES = 16 << 10
"""Longer lines are shown cut."""
LARGEST_WINDOW_BYTES = 64 << 20
_SEARCH_BYTES = 1 << 20


class TextLine(Record):
    """One line, without its newline. ``number`` counts from 0; None where it was not counted."""

    number: int | None
    offset: int
    data: bytes
    is_cut: bool = False
    """Whether the line is longer than what is in ``data``."""

    @property
    def text(self) -> str:
        """For show: undecodable bytes are replaced. It may hold anything, escape sequences and markup included."""
        return self.data.decode("utf-8", "replace")


class WindowedFile:
    """A file of a run (a log, a transcript, a patch), read in windows. A context manager; any thread may use it.

    A compressed one is read in the same way, by offsets in what it was before. One that is being written may be looked
    at as well: each call sees what is there. Raises ``InputError`` where there is no such file or it is damaged.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._file, self._blocks = open_blocks(self.path)

    def __repr__(self) -> str:
        return f"WindowedFile({str(self.path)!r}, {self.size} bytes)"

    @property
    def size(self) -> int:
        """Bytes now, unpacked."""
        with self._lock:
            return self._blocks.size

    def read_window(self, offset: int, length: int) -> bytes:
        """The bytes from ``offset``; fewer at the end. At most 64 MiB at once."""
        if not 0 <= length <= LARGEST_WINDOW_BYTES or offset < 0:
            raise InputError(f"a window has 0 to {LARGEST_WINDOW_BYTES} bytes, from an offset of 0 or more")
        with self._lock:
            return self._blocks.read(offset, length)

    def lines(self, first: int, count: int) -> list[TextLine]:
        """``count`` lines from number ``first`` on; fewer at the end.

        Newlines are counted up to there once: 0.1 s for each 200 MB of a plain file, none of a compressed one.
        """
        with self._lock:
            offset = self._offset_of(first)
            if offset is None:
                return []
            found = _take(self._from(offset), count)
        return [line.model_copy(update={"number": first + index}) for index, line in enumerate(found)]

    def lines_at(self, offset: int, count: int) -> list[TextLine]:
        """``count`` lines from the one on which ``offset`` is; not numbered, and nothing is counted."""
        with self._lock:
            start = self._after_newline(min(max(offset, 0), self._blocks.size), 1)
            return _take(self._from(start), count)

    def tail(self, count: int) -> list[TextLine]:
        """The last ``count`` lines, not numbered: nothing is counted. The last one may be unfinished."""
        with self._lock:
            return _take(self._from(self._tail_start(count)), count)

    def line_count(self) -> int:
        """How many lines there are now, an unfinished last one included."""
        with self._lock:
            size = self._blocks.size
            unfinished = size > 0 and self._blocks.read(size - 1, 1) != b"\n"
            return self._blocks.newlines_before(size) + unfinished

    def line_of(self, offset: int) -> int:
        """Number of the line on which ``offset`` is."""
        with self._lock:
            return self._blocks.newlines_before(offset)

    def find(self, needle: bytes | str, start: int = 0, *, ignore_case: bool = False) -> int | None:
        """Offset of the first ``needle`` from ``start`` on; None where there is none. Case is that of ASCII letters."""
        wanted = needle.encode("utf-8", "surrogateescape") if isinstance(needle, str) else needle
        wanted = wanted.lower() if ignore_case else wanted
        if not wanted:
            raise InputError("nothing to look for")
        offset = max(start, 0)
        while data := self.read_window(offset, _SEARCH_BYTES + len(wanted) - 1):
            at = (data.lower() if ignore_case else data).find(wanted)
            if at >= 0:
                return offset + at
            offset += _SEARCH_BYTES
        return None

    def close(self) -> None:
        """Close it. A second call does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _offset_of(self, number: int) -> int | None:
        """Where a line begins; None where there are fewer."""
        if number <= 0:
            return 0
        place = self._blocks.block_of_newline(number)
        if place is None:
            return None
        block, before = place
        start = self._blocks.start(block)
        data = self._blocks.read(start, self._blocks.start(block + 1) - start)
        at = -1
        for _newline in range(number - before):
            at = data.find(b"\n", at + 1)
        return start + at + 1

    def _tail_start(self, count: int) -> int:
        end = self._blocks.size
        if count <= 0:
            return end
        if end > 0 and self._blocks.read(end - 1, 1) == b"\n":
            end -= 1  # the newline that ends the last line begins no further one
        return self._after_newline(end, count)

    def _after_newline(self, end: int, count: int) -> int:
        """Right after the newline that is the last but ``count - 1`` before ``end``; 0 where there are fewer."""
        while end > 0:
            start = max(end - BLOCK_BYTES, 0)
            data = self._blocks.read(start, end - start)
            at = len(data)
            while (at := data.rfind(b"\n", 0, at)) >= 0:
                count -= 1
                if count == 0:
                    return start + at + 1
            end = start
        return 0

    def _from(self, offset: int) -> Iterator[TextLine]:
        """Lines from a line's start on, each held up to its cut."""
        size = self._blocks.size
        start, kept = offset, bytearray()
        while offset < size and (data := self._blocks.read(offset, min(BLOCK_BYTES, size - offset))):
            position = 0
            while (at := data.find(b"\n", position)) >= 0:
                end = offset + at
                yield _line(start, kept + data[position : min(at, position + LONGEST_LINE_BYTES + 1)], end)
                position, start, kept = at + 1, end + 1, bytearray()
            kept += data[position : position + max(LONGEST_LINE_BYTES + 1 - len(kept), 0)]
            offset += len(data)
        if start < size:
            yield _line(start, kept, size)


def _line(start: int, kept: bytes | bytearray, end: int) -> TextLine:
    data = bytes(kept[:LONGEST_LINE_BYTES])
    return TextLine(number=None, offset=start, data=data, is_cut=end - start > len(data))


def _take(lines: Iterator[TextLine], count: int) -> list[TextLine]:
    return list(islice(lines, max(count, 0)))
