"""Messages between the SDK and a supervisor: JSON with a 4-byte length, file descriptors beside it.

A *control socket* carries nothing but new connections: one byte and the descriptor of a fresh socket. Every call (one
create, one exec, one file) has such a connection of its own, so no reply needs a number, and a caller that dies or
gives up is seen as the end of its connection.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]
Ancillary = list[tuple[int, int, "array.array[int]"]]
MAX_FRAME_BYTES = 64 << 20
_MAX_FDS = 8
_LENGTH = struct.Struct("!I")
# What json.dumps and json.loads come to, without what they make and match anew each time: every box would copy dozens
# of pages for it that all boxes share. The first is private: its arguments have been these from Python 3.11 to 3.14.
_default, _escape = json.JSONEncoder().default, json.encoder.encode_basestring_ascii
_encode = json.encoder.c_make_encoder(  # type: ignore[attr-defined]
    None, _default, _escape, None, ": ", ", ", False, False, True
)
_decode = json.JSONDecoder().raw_decode


class FrameError(Exception):
    """Something that is no frame, or is too large for one."""


def encode(message: Message) -> bytes:
    """One frame. Undecodable bytes travel as lone surrogates, escaped by JSON. ``FrameError`` if it is too large."""
    body = "".join(_encode(message, 0)).encode("ascii")
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body


READY, CREATED = encode({"ev": "ready"}), encode({"ev": "created"})
"""What every box is told of, encoded once instead of in each of them."""


def failed(error: BaseException) -> bytes:
    """The frame that says why something did not come about."""
    return encode({"ev": "failed", "error": str(error), "errno": getattr(error, "errno", None)})


def rights(fds: Iterable[int]) -> Ancillary:
    """Ancillary data that carries ``fds``; empty for none."""
    numbers = array.array("i", fds)
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if numbers else []


def receive(sock: socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Up to ``size`` bytes and the descriptors beside them, closed on exec. ``b""`` = the peer is gone."""
    data, ancillary, _flags, _address = sock.recvmsg(size, socket.CMSG_SPACE(4 * _MAX_FDS), socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers = array.array("i")
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
            fds.extend(numbers)
    return data, fds


class Decoder:
    """Collects bytes and descriptors until a message is whole. Descriptors belong to the message they came with."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.fds: list[int] = []

    def feed(self, data: bytes, fds: Iterable[int] = ()) -> None:
        """Add what :func:`receive` returned."""
        self._buffer += data
        self.fds.extend(fds)

    def next(self) -> Message | None:
        """The next whole message, or None; its descriptors are in :meth:`take_fds`."""
        if len(self._buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer)
        if length > MAX_FRAME_BYTES:
            raise FrameError(f"a frame of {length} bytes")
        end = _LENGTH.size + length
        if len(self._buffer) < end:
            return None
        text = self._buffer[_LENGTH.size : end].decode("ascii")
        del self._buffer[:end]
        message, ended_at = _decode(text)
        if ended_at < len(text) or not isinstance(message, dict):
            raise FrameError("a frame that is no object")
        return message

    def take_fds(self) -> list[int]:
        """The descriptors received so far; they are the caller's from here on."""
        fds, self.fds = self.fds, []
        return fds

    def close(self) -> None:
        """Close descriptors that nobody took."""
        for fd in self.take_fds():
            os.close(fd)


def send_blocking(sock: socket.socket, frame: bytes, fds: Iterable[int] = ()) -> None:
    """Send one frame on a blocking socket."""
    sent = sock.sendmsg([frame], rights(fds))
    if sent < len(frame):
        sock.sendall(frame[sent:])
