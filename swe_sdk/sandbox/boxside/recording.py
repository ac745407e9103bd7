"""The reply to a call, as a file that is fetched whenever that is possible; and commands whose output is kept in it."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import time
from collections.abc import Iterable, Iterator

from . import frames, memory_events
from .calls import Connection
from .keeping import HeadTail

PIECE = struct.Struct("!BI")
"""What comes before each piece of a live stream: which stream (1 or 2), and how many bytes."""
_PIPE_BYTES, _READ_BYTES = 1 << 18, 1 << 18
_BELL_S = 0.02
"""Between two rings for one live stream."""
_MOST_PAYLOAD_BYTES = 1 << 18
"""Of a file that is read, beside the reply; a larger one is fetched by itself."""


class Answer(Connection):
    """A call under way. It belongs to no connection: those who wait for its reply come and go."""

    def __init__(self, call: str, places: Iterable[str]) -> None:
        self.decoder = frames.Decoder()
        self.command = None
        self.id = call
        self.places = tuple(places)
        self.line = b""
        """What rings at the end; empty until then."""
        self.file = ""
        """Where the reply is, if it could be written."""
        self.staged = ""
        """A file of ours that a read is copied to."""
        self._followers: list[Connection] = []

    def follow(self, connection: Connection) -> None:
        """Ring there, too."""
        self._followers.append(connection)
        if self.line:
            self.ring(self.line, is_last=True)

    def ring(self, line: bytes, *, is_last: bool = False) -> None:
        """To all who wait. One who is gone, or does not read, is no error."""
        for follower in self._followers:
            try:
                follower.sock.send(line)
                if is_last:
                    follower.sock.shutdown(1)
            except OSError:
                pass
        if is_last:
            self._followers.clear()

    def reply(self, message: frames.Message, fds: tuple[int, ...] = ()) -> None:
        """Write it down, and say where. Where no disk takes it, it is told without what goes with it."""
        payload = self._payload(message)
        header = json.dumps(message).encode("ascii")
        for place in self.places:
            if self._write(f"{place}/{self.id}.reply", header + b"\n" + payload):
                break
        self.line = b"ended %s\n" % self.file.encode() if self.file else b"told %s\n" % header
        self.ring(self.line, is_last=True)
        self.close()

    def _payload(self, message: frames.Message) -> bytes:
        """What was read, if it is small."""
        if not self.staged or message.get("copied", _MOST_PAYLOAD_BYTES) >= _MOST_PAYLOAD_BYTES:
            return b""
        with open(self.staged, "rb") as file:
            return file.read()

    def _write(self, path: str, data: bytes) -> bool:
        try:
            with open(f"{path}.part", "wb") as file:
                file.write(data)
            os.rename(f"{path}.part", path)
        except OSError:
            _remove(f"{path}.part")
            return False
        self.file = path
        return True

    def close(self) -> None:
        """Let go of descriptors that nobody took."""
        self.decoder.close()

    def forget(self) -> None:
        """Nobody needs its files any more."""
        for path in filter(None, (self.file, self.staged, f"{self.places[-1]}/{self.id}.stream")):
            _remove(path)


class Recording(Answer):
    """A command, whose streams are read here: nobody need be connected while it runs."""

    def __init__(self, call: str, places: Iterable[str], message: frames.Message) -> None:
        super().__init__(call, places)
        self._streams: dict[int, int] = {}
        """Our ends of its pipes: 1 or 2."""
        self._kept = {number: HeadTail(message["output_bytes"]) for number in (1, 2)}
        self._spool = self._open_spool() if message["live"] else -1
        self._output = b""
        self._rang = 0.0
        self._started = time.monotonic()
        self._oom_kills = memory_events.oom_kills()

    def _open_spool(self) -> int:
        try:
            return os.open(f"{self.places[-1]}/{self.id}.stream", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return -1

    def begin(self, message: frames.Message) -> Iterator[int]:
        """Make its streams: their ends for the program, which are the caller's."""
        is_shared = message.get("uid") is not None  # programs of another user could not open /dev/stdout else
        yield _input(message)
        output = self._pipe(1, is_shared)
        yield output
        yield os.dup(output) if message["merge_stderr"] else self._pipe(2, is_shared)

    def _pipe(self, number: int, is_shared: bool) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        self._streams[reader] = number
        try:
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass  # an ordinary user may have 64 MiB of enlarged pipes in all
        if is_shared:
            os.fchmod(writer, 0o666)
        return writer

    @property
    def readers(self) -> tuple[int, ...]:
        """Our ends of its pipes."""
        return tuple(self._streams)

    def drop(self, reader: int) -> None:
        """It has come to its end, and is closed."""
        del self._streams[reader]

    def read(self, reader: int, size: int = _READ_BYTES) -> int:
        """Take a piece of what is there; how much that was, 0 at the end of the stream, -1 for nothing yet."""
        try:
            chunk = os.read(reader, size)
        except BlockingIOError:
            return -1
        self._kept[self._streams[reader]].feed(chunk)
        if chunk and self._spool >= 0:
            self._spool_piece(self._streams[reader], chunk)
        return len(chunk)

    def _spool_piece(self, number: int, chunk: bytes) -> None:
        piece = PIECE.pack(number, len(chunk)) + chunk
        try:
            is_whole = os.write(self._spool, piece) == len(piece)
        except OSError:
            is_whole = False
        if not is_whole:  # the disk is full: what was printed is still kept for the reply
            self._close_spool()
        if time.monotonic() > self._rang + _BELL_S:
            self._rang = time.monotonic()
            self.ring(b"more\n")

    def reply(self, message: frames.Message, fds: tuple[int, ...] = ()) -> None:
        """It has ended: take what is in the pipes, and no more, for others may go on writing."""
        for reader in self._streams:
            left = fcntl.fcntl(reader, fcntl.F_GETPIPE_SZ)
            while left > 0 and (taken := self.read(reader, left)) > 0:
                left -= taken
        self._close_spool()
        results = [self._kept[number].result() for number in (1, 2)]
        self._output = b"".join(kept for kept, _dropped in results)
        super().reply(
            {
                **message,
                "has_starved": memory_events.oom_kills() > self._oom_kills,
                "duration_s": time.monotonic() - self._started,
                "kept": [len(kept) for kept, _dropped in results],
                "dropped": [dropped for _kept, dropped in results],
            }
        )

    def _payload(self, message: frames.Message) -> bytes:
        return self._output

    def _close_spool(self) -> None:
        if self._spool >= 0:
            os.close(self._spool)
            self._spool = -1


def _input(message: frames.Message) -> int:
    """Standard input: nothing, a file that was brought, or an anonymous one of what came with the call."""
    if message["stdin"] is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    if message["stdin_file"]:
        return open_once(message["stdin"])
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    os.write(fd, message["stdin"].encode("latin-1"))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def open_once(path: str) -> int:
    """A descriptor of a file that was brought for one call, and that has no name from now on."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    _remove(path)
    return fd


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
