"""A packed archive as a stream of its unpacked bytes: counted, and compared with their digest at the end."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator

try:
    from compression import zstd  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    zstd = None

_PIECE_BYTES = 1 << 18
_LARGEST_READ_BYTES = 1 << 24
"""Of what must be in memory at once: a header with its names, or a piece of a file."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_GZIP_WINDOW = 31
"""The largest window, with a gzip header around it."""


class Unpackable(ValueError):
    """It is packed wrongly, or otherwise than it should be, or holds too much."""


class Source:
    """What :class:`tarfile.TarFile` takes for a file that goes forward."""

    def __init__(self, file: int, digest: str, limit_bytes: int) -> None:
        self._pieces = _unpacked(file)
        self._piece = memoryview(b"")
        self._position = 0
        algorithm, _, self._digest = digest.partition(":")
        self._hash = hashlib.new(algorithm)
        self.limit_bytes = limit_bytes
        self.left = limit_bytes
        self.last = b""
        """What was read last."""

    def tell(self) -> int:
        """How many bytes were read."""
        return self._position

    def seek(self, position: int) -> int:
        """Skip what comes before ``position``."""
        for _piece in self.pieces(position - self._position):
            pass
        return self._position

    def read(self, size: int) -> bytes:
        """``size`` bytes, fewer at the end alone."""
        if size > _LARGEST_READ_BYTES:
            raise Unpackable("it has a header of absurd size")
        self.last = b"".join(self._some(size))
        return self.last

    def pieces(self, size: int) -> Iterator[bytes | memoryview]:
        """The next ``size`` bytes, in pieces; ``Unpackable`` if they are not there."""
        end = self._position + size
        yield from self._some(size)
        if self._position < end:
            raise Unpackable("it ends in the middle of an entry")

    def count(self, size: int) -> None:
        """Take ``size`` from what may still come."""
        self.left -= size
        if self.left < 0:
            raise Unpackable(f"it is larger than {self.limit_bytes:,} bytes")

    def finish(self) -> None:
        """Read what follows the archive's end; ``Unpackable`` where all of it is not what the image names."""
        while self._fill():
            self._position += len(self._piece)
            self._piece = memoryview(b"")
        if self._hash.hexdigest() != self._digest:
            raise Unpackable("its content is not what the image's config names")

    def _some(self, size: int) -> Iterator[memoryview]:
        while size > 0 and self._fill():
            piece = self._piece[:size]
            self._piece = self._piece[size:]
            self._position += len(piece)
            size -= len(piece)
            yield piece

    def _fill(self) -> bool:
        """Have something to read, if anything is left."""
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._hash.update(piece)
            self.count(len(piece))
            self._piece = memoryview(piece)
        return True


def _unpacked(file: int) -> Iterator[bytes]:
    start = os.pread(file, 4, 0)
    if start.startswith(_GZIP):
        return _gunzip(_read(file))
    if start == _ZSTD:
        return _unzstd(file)
    return _read(file)


def _read(file: int) -> Iterator[bytes]:
    while piece := os.read(file, _PIECE_BYTES):
        yield piece


def _gunzip(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Any number of gzip members; never more than a piece at once, however well it was packed."""
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    try:
        for piece in packed:
            while piece:
                if decoder.eof:
                    decoder = zlib.decompressobj(_GZIP_WINDOW)
                yield decoder.decompress(piece, _PIECE_BYTES)
                piece = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    except zlib.error as error:
        raise Unpackable(f"it is not packed as it says: {error}") from None
    if not decoder.eof:
        raise Unpackable("it ends too early")


def _unzstd(file: int) -> Iterator[bytes]:
    """By the standard library where it can, since Python 3.14, else by the program of that name."""
    return _run_zstd(file) if zstd is None else _unzstd_here(file)


def _unzstd_here(file: int) -> Iterator[bytes]:
    with os.fdopen(os.dup(file), "rb") as packed, zstd.open(packed) as unpacked:
        try:
            while piece := unpacked.read(_PIECE_BYTES):
                yield piece
        except (zstd.ZstdError, EOFError) as error:
            raise Unpackable(f"it is not packed as it says: {error}") from None


def _run_zstd(file: int) -> Iterator[bytes]:
    """The program starts at once, and not when the first piece is wanted: it may be out of reach by then."""
    program = shutil.which("zstd")
    if program is None:
        raise Unpackable("it is packed by zstd, which takes the program zstd on this machine (or Python 3.14)")
    process = subprocess.Popen([program, "-dcq"], stdin=file, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return _output_of(process, process.stdout.fileno())


def _output_of(process: subprocess.Popen[bytes], output: int) -> Iterator[bytes]:
    yield from _read(output)
    if process.wait() != 0:
        raise Unpackable("it is not packed as it says: zstd failed")
