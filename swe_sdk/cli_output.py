"""What the commands print: where standard output takes nothing more, one typed error says so, whoever printed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOBase
from typing import Any, TextIO, cast

from swe_sdk.errors import OutputFailed
from swe_sdk.shown import neutral


@contextmanager
def guarded_output() -> Iterator[None]:
    """Within, what is printed and cannot be written raises :class:`~swe_sdk.errors.OutputFailed`, at the end at latest.

    An error that ends the block is the one that is raised: what was printed before it is written as far as it goes.
    """
    stream = sys.stdout
    output = _Output(stream if stream is not None else cast("TextIO", _Closed()))
    sys.stdout = cast("TextIO", output)
    try:
        try:
            yield
        except SystemExit:  # of argparse, which has printed its help
            output.flush()
            raise
        except BaseException:
            with suppress(OutputFailed):
                output.flush()
            raise
        output.flush()
    finally:
        sys.stdout = stream


def complain(text: str) -> None:
    """One line on standard error, which may quote what agents wrote. Where nobody can hear it, the exit code tells."""
    if sys.stderr is not None:  # as _Closed
        try:
            sys.stderr.write(f"swe-sdk: {neutral(' '.join(text.split()))}\n")
            sys.stderr.flush()
        except OSError:
            _give_up(sys.stderr)


def _give_up(stream: TextIO) -> None:
    """Let the rest go nowhere: Python tries it again as it ends, and would then end with another exit code."""
    with suppress(OSError, ValueError):  # a stream that is no file has no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _Output:
    """A stream whose failures are typed; all else of it is as it was."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._typed():
            return self._stream.write(text)

    def flush(self) -> None:
        with self._typed():
            self._stream.flush()

    @contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            _give_up(self._stream)
            raise OutputFailed(error) from error


class _Closed(TextIOBase):
    """What Python has no stream for: its descriptor was closed before it began."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
