"""Reading a journal from where somebody stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CHUNK_BYTES = 4 << 20


class RawLine(NamedTuple):
    """A line without its newline, and where it is."""

    at: int
    data: bytes


def read_lines(path: Path, offset: int, chunk_bytes: int = _CHUNK_BYTES) -> list[RawLine]:
    """Whole lines from ``offset`` on, of about ``chunk_bytes``; none where no line is complete yet.

    Nothing from the first zero byte on is taken: no line has one, and a network file system shows them where the data
    of a longer file has not arrived yet.
    """
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            data = _whole_lines(file.read(chunk_bytes) or b"")
            size = chunk_bytes
            while not data and size <= path.stat().st_size - offset:
                size *= 2
                file.seek(offset)
                data = _whole_lines(file.read(size) or b"")
    except FileNotFoundError:
        return []
    return list(_split(data, offset))


def read_line(path: Path, at: int, length: int) -> bytes | None:
    """The line at a place that an index has named; None where the file is not there any more."""
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(at)
            data = file.read(length) or b""
    except FileNotFoundError:
        return None
    return data if len(data) == length else None


def _whole_lines(data: bytes) -> bytes:
    zero = data.find(b"\0")
    return data[: data.rfind(b"\n", 0, zero if zero >= 0 else len(data)) + 1]


def _split(data: bytes, offset: int) -> Iterator[RawLine]:
    for line in data.split(b"\n")[:-1]:
        yield RawLine(offset, line)
        offset += len(line) + 1
