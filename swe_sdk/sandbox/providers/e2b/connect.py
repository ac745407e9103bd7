"""Streams of the Connect protocol with JSON messages, as envd speaks it. Pure: bytes in, messages out.

Each message is an *envelope*: one byte of flags, four bytes of length, and as many bytes of JSON. The last one has the
flag 2, and says whether the call went well. See https://connectrpc.com/docs/protocol, "Streaming RPCs".
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
CONTENT_TYPE = "application/connect+json"
MAX_MESSAGE_BYTES = 16 << 20
_HEAD = struct.Struct("!BI")
_COMPRESSED, _LAST = 1, 2


class WireError(Exception):
    """What arrived is no stream of this protocol."""


@dataclass(frozen=True)
class End:
    """The last message of a stream: ``code`` is empty where the call went well."""

    code: str = ""
    message: str = ""


def envelope(message: Message) -> bytes:
    """One message, as it is sent."""
    body = json.dumps(message).encode()
    return _HEAD.pack(0, len(body)) + body


class Decoder:
    """Collects bytes until a message is whole."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Add what has arrived, cut anywhere."""
        self._buffer += data

    def next(self) -> Message | End | None:
        """The next whole message; None where more must arrive first. ``WireError`` where it is none."""
        if len(self._buffer) < _HEAD.size:
            return None
        flags, size = _HEAD.unpack_from(self._buffer)
        if flags & ~_LAST or size > MAX_MESSAGE_BYTES:
            what = "is compressed" if flags & _COMPRESSED else f"has the flags {flags} and {size} bytes"
            raise WireError(f"a message {what}")
        end = _HEAD.size + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        message = parse(body)
        return _end(message) if flags & _LAST else message


def parse(body: bytes) -> Message:
    """An object of JSON; ``WireError`` for anything else."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a message is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise WireError("a message is no object")
    return message


def _end(message: Message) -> End:
    error = message.get("error")
    if not isinstance(error, dict):
        return End()
    return End(str(error.get("code") or "unknown"), str(error.get("message") or ""))
