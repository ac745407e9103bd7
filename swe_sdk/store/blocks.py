"""A file as blocks of bytes, plain or compressed, with the number of newlines in each."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import BinaryIO, Protocol

from swe_sdk.errors import InputError
from swe_sdk.store.frames import SUFFIX, Frames

BLOCK_BYTES = 256 << 10


class Blocks(Protocol):
    """Bytes that can be read anywhere. Block ``i`` has the bytes from ``start(i)`` to ``start(i + 1)``."""

    @property
    def size(self) -> int:
        """Bytes in all, now."""

    def read(self, offset: int, length: int) -> bytes:
        """The bytes from ``offset``; fewer at the end."""

    def start(self, block: int) -> int:
        """Where a block begins."""

    def block_of_newline(self, number: int) -> tuple[int, int] | None:
        """The block with that newline (counted from 1), and how many are before the block; None if there are fewer."""

    def newlines_before(self, offset: int) -> int:
        """How many newlines are in the bytes before ``offset``."""


class PlainBlocks:
    """A file as it is, which may grow. Newlines are counted when they are asked for, and each block once."""

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self._file = file
        self._counts: list[int] = [0]
        """Newlines before each block that was counted, and after the last of them. Only whole blocks are counted."""

    @property
    def size(self) -> int:
        """Bytes now."""
        return os.fstat(self._fd).st_size

    def read(self, offset: int, length: int) -> bytes:
        """From the file."""
        return os.pread(self._fd, length, offset)

    def start(self, block: int) -> int:
        """All blocks are of one size."""
        return block * BLOCK_BYTES

    def block_of_newline(self, number: int) -> tuple[int, int] | None:
        """Counts as far as is needed."""
        whole = self.size // BLOCK_BYTES
        while self._counts[-1] < number and len(self._counts) <= whole:
            self._count_next()
        if self._counts[-1] >= number:
            block = bisect_left(self._counts, number) - 1
            return block, self._counts[block]
        block = len(self._counts) - 1
        rest = self.read(self.start(block), BLOCK_BYTES).count(b"\n")
        return (block, self._counts[-1]) if self._counts[-1] + rest >= number else None

    def newlines_before(self, offset: int) -> int:
        """Counts as far as is needed."""
        block, rest = divmod(min(offset, self.size), BLOCK_BYTES)
        while len(self._counts) <= block:
            self._count_next()
        return self._counts[block] + self.read(self.start(block), rest).count(b"\n")

    def _count_next(self) -> None:
        block = self.read(self.start(len(self._counts) - 1), BLOCK_BYTES)
        self._counts.append(self._counts[-1] + block.count(b"\n"))


class PackedBlocks:
    """A compressed artifact: its blocks are the frames, which know how many newlines they have."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frames = Frames(file)
        self._counts = [0]
        for frame in self._frames.frames:
            self._counts.append(self._counts[-1] + frame.newlines)

    @property
    def size(self) -> int:
        """Unpacked bytes."""
        return self._frames.size

    def read(self, offset: int, length: int) -> bytes:
        """Unpacks the frames that are needed."""
        return self._frames.read(offset, length)

    def start(self, block: int) -> int:
        """Where a frame's bytes begin."""
        return self._frames.starts[block]

    def block_of_newline(self, number: int) -> tuple[int, int] | None:
        """By the frames' own counts."""
        if number > self._counts[-1]:
            return None
        block = bisect_left(self._counts, number) - 1
        return block, self._counts[block]

    def newlines_before(self, offset: int) -> int:
        """By the frames' own counts, and those of a part of one."""
        if offset >= self.size:
            return self._counts[-1]
        block = bisect_right(self._frames.starts, offset) - 1
        inside = offset - self._frames.starts[block]
        return self._counts[block] + self._frames.unpacked(block).count(b"\n", 0, inside)


def open_blocks(path: Path) -> tuple[BinaryIO, Blocks]:
    """The file at ``path``, or at ``path.gz`` where it was compressed; ``InputError`` where there is neither."""
    for candidate in (path, path.with_name(path.name + SUFFIX), path):  # twice: it may be replaced meanwhile
        try:
            file = open(candidate, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
        except FileNotFoundError:
            continue
        except OSError as error:
            raise InputError(f"cannot read {candidate}: {error.strerror}") from error
        try:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{candidate} is no file")
            return file, (PackedBlocks(file) if candidate.suffix == SUFFIX else PlainBlocks(file))
        except BaseException:
            file.close()
            raise
    raise InputError(f"there is no artifact {path}", remedy="it was deleted, or its run directory was moved in part")


def _without_waiting(path: str, flags: int) -> int:
    """Run directories come from elsewhere too: a pipe in the place of a file would be waited for for ever."""
    return os.open(path, flags | os.O_NONBLOCK)
