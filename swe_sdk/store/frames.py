"""Compressed files that can be read anywhere without unpacking what lies before.

They are gzip files of many members (``zcat`` reads them), each of which unpacks to at most ``FRAME_BYTES``. An extra
field of a member's header (RFC 1952, 2.3.1.1), ``SW``, says how long the member is, to how many bytes it unpacks and
how many newlines are in them. So a reader goes from header to header, and unpacks the members that it needs.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from swe_sdk.errors import InputError, NoSpace
from swe_sdk.model.ids import new_id
from swe_sdk.store.atomic import disk_full_is_typed

FRAME_BYTES = 512 << 10
SUFFIX = ".gz"
_LEVEL = 3
_FIXED = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"  # gzip, deflate, has an extra field; no time, unknown system
_EXTRA = struct.Struct("<H2sHIII")  # length of the extra field, id and length of its part; the three numbers
_HEADER_BYTES = len(_FIXED) + _EXTRA.size
_TRAILER = struct.Struct("<II")


class Frame(NamedTuple):
    """Where a member lies, and what it unpacks to."""

    at: int
    """Offset of the member in the file."""
    stored: int
    """Bytes of the member."""
    raw: int
    """Bytes it unpacks to."""
    newlines: int


def pack(data: bytes) -> bytes:
    """One member."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(data) + packer.flush()
    size = _HEADER_BYTES + len(body) + _TRAILER.size
    extra = _EXTRA.pack(16, b"SW", 12, size, len(data), data.count(b"\n"))
    return b"".join((_FIXED, extra, body, _TRAILER.pack(zlib.crc32(data), len(data))))


def compress_file(path: Path) -> Path:
    """Put ``path`` + ``.gz`` in its place; returns where it is now.

    That is still ``path`` where there is no room for both: what was written is not lost for being large.
    """
    draft = path.with_name(f".{path.name}.{new_id('gz')}")
    target = path.with_name(path.name + SUFFIX)
    try:
        with disk_full_is_typed(path), path.open("rb") as source, draft.open("xb") as out:
            os.fchmod(out.fileno(), os.fstat(source.fileno()).st_mode & 0o777)  # what was private stays so
            while data := source.read(FRAME_BYTES):
                out.write(pack(data))
            out.flush()
            os.fsync(out.fileno())  # what it replaces is removed below
        draft.replace(target)
    except NoSpace:
        return path
    finally:
        draft.unlink(missing_ok=True)
    path.unlink()
    return target


class Frames:
    """The members of a file, and the bytes in them. ``InputError`` for a file that was not written by this module."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.frames = list(_frames(file))
        self.starts = [0]
        """Offset of each member's bytes in the unpacked whole, and its size at the end."""
        for frame in self.frames:
            self.starts.append(self.starts[-1] + frame.raw)
        self._last: tuple[int, bytes] = (-1, b"")

    @property
    def size(self) -> int:
        """Bytes of the unpacked whole."""
        return self.starts[-1]

    def read(self, offset: int, length: int) -> bytes:
        """The bytes from ``offset``; fewer than ``length`` at the end."""
        parts = []
        end = min(offset + length, self.size)
        while offset < end:
            number = bisect_right(self.starts, offset) - 1
            start = offset - self.starts[number]
            parts.append(self.unpacked(number)[start : start + end - offset])
            offset += len(parts[-1])
        return b"".join(parts)

    def unpacked(self, number: int) -> bytes:
        """The bytes of a member. The last one asked for is kept."""
        if self._last[0] != number:
            self._last = (number, self._unpack(self.frames[number]))
        return self._last[1]

    def _unpack(self, frame: Frame) -> bytes:
        self._file.seek(frame.at)
        try:
            unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
            data = unpacker.decompress(self._file.read(frame.stored), FRAME_BYTES + 1)  # whatever it unpacks to
        except zlib.error as error:
            raise InputError(f"a compressed file is damaged at byte {frame.at}: {error}") from error
        if len(data) != frame.raw:
            raise InputError(f"a compressed file is damaged at byte {frame.at}: it does not hold what it says")
        return data


def _frames(file: BinaryIO) -> Iterator[Frame]:
    at = 0
    end = file.seek(0, 2)
    while at < end:
        file.seek(at)
        head = file.read(_HEADER_BYTES)
        if len(head) < _HEADER_BYTES or head[3] != _FIXED[3]:
            raise InputError("not a compressed artifact: it was not made by swe_sdk, or is cut short")
        length, name, _part, stored, raw, newlines = _EXTRA.unpack_from(head, len(_FIXED))
        if (length, name) != (16, b"SW") or not _HEADER_BYTES < stored <= end - at or raw > FRAME_BYTES:
            raise InputError("not a compressed artifact: it was not made by swe_sdk, or is cut short")
        yield Frame(at, stored, raw, newlines)
        at += stored
