"""The log of one attempt, kept on our side of the wall."""

from __future__ import annotations

import secrets
from pathlib import Path

MAX_LOG_BYTES = 256 << 20
"""How much output of one attempt is kept; the rest is dropped and flagged ``log_truncated``."""


class RunLog:
    """Bytes of the prelude and of the tests, written as they arrive to a file that the box cannot reach.

    The graded program can print what it likes, but it can never change what was read from it, and no line that it
    prints opens or closes the test section: where the section begins and ends is known by its offsets, because prelude
    and tests are two commands. The marker lines, with a random nonce drawn for this log, are for human readers.

    A write that fails (a full disk) does not disturb the reader of the output; it is kept in :attr:`error`.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_LOG_BYTES) -> None:
        self.path = path
        self.nonce = secrets.token_hex(8)
        self.dropped_bytes = 0
        self.error: OSError | None = None
        self._room = max_bytes
        self._file = path.open("wb")
        self._start: int | None = None
        self._end: int | None = None
        self._last = b"\n"

    def write(self, data: bytes) -> None:
        """Add output of the program, as long as there is room."""
        kept = data[: self._room]
        self._room -= len(kept)
        self.dropped_bytes += len(data) - len(kept)
        self._put(kept)

    def open_section(self) -> None:
        """The tests start: what is written from now on is the test section."""
        self._mark("Start")
        self._start = self._position()

    def close_section(self) -> None:
        """The tests have ended."""
        self._end = self._position()
        self._mark("End")

    def section(self) -> str:
        """The test section as UTF-8, undecodable bytes replaced; empty where the tests did not run."""
        if self._start is None or self._end is None:
            return ""
        with self.path.open("rb") as file:
            file.seek(self._start)
            return file.read(self._end - self._start).decode("utf-8", "replace")

    def tail(self, size_bytes: int = 4000) -> str:
        """The end of everything that was logged."""
        self._flush()
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - size_bytes))
            return file.read(size_bytes).decode("utf-8", "replace")

    def close(self) -> None:
        """Flush and close; may be called twice."""
        try:
            self._file.close()
        except OSError as error:
            self.error = self.error or error

    def _mark(self, which: str) -> None:
        separator = b"" if self._last == b"\n" else b"\n"
        self._put(separator + f">>>>> {self.nonce} {which} Test Output\n".encode())

    def _put(self, data: bytes) -> None:
        if not data or self.error is not None:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self.error = error
        self._last = data[-1:]

    def _position(self) -> int:
        self._flush()
        return self.path.stat().st_size

    def _flush(self) -> None:
        try:
            if not self._file.closed:
                self._file.flush()
        except OSError as error:
            self.error = self.error or error
