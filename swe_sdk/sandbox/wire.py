"""The SDK's end of a supervisor's or zygote's control socket. One call, one connection; no reader task behind it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

import anyio

from swe_sdk.sandbox.boxside import frames
from swe_sdk.sandbox.waiting import readable, writable


class PeerGone(Exception):
    """The process at the other end has died. Callers turn it into a ``SandboxError`` that says which."""


class Call:
    """A connection for one call: send a message, receive the replies, close. Use :func:`open_call`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._decoder = frames.Decoder()

    async def send(self, message: frames.Message, fds: Iterable[int] = ()) -> None:
        """Send one message; ``fds`` are duplicated by the kernel and stay the caller's."""
        data = memoryview(frames.encode(message))
        ancillary = frames.rights(fds)
        while data:
            try:
                sent = self._sock.sendmsg([data], ancillary)
            except BlockingIOError:
                await writable(self._sock)
            except OSError as error:
                raise PeerGone from error
            else:
                data, ancillary = data[sent:], []

    async def receive(self) -> tuple[frames.Message, list[int]]:
        """The next message and its descriptors, which are the caller's to close."""
        while (message := self.receive_now()) is None:
            await readable(self._sock)
        return message, self._decoder.take_fds()

    def receive_now(self) -> frames.Message | None:
        """The next message if it is whole already; ``PeerGone`` if none will come."""
        while (message := self._decoder.next()) is None:
            try:
                data, fds = frames.receive(self._sock, 1 << 16)
            except BlockingIOError:
                return None
            except OSError as error:
                raise PeerGone from error
            if not data:
                raise PeerGone
            self._decoder.feed(data, fds)
        return message

    @property
    def is_ready(self) -> bool:
        """Whether it can be used once more: the other end was there a moment ago, and has nothing left to say."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def fileno(self) -> int:
        """For whoever waits for several things at once."""
        return self._sock.fileno()

    def close(self) -> None:
        """End the call; a command that still runs in it is killed by its supervisor."""
        self._decoder.close()
        self._sock.close()

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


async def open_call(control: socket.socket) -> Call:
    """A new call to the process that serves ``control`` (a non-blocking socket)."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            while not _hand_over(control, theirs):
                await anyio.sleep(0.001)  # its queue of new calls is full
    except OSError as error:
        ours.close()
        raise PeerGone from error
    except BaseException:
        ours.close()
        raise
    ours.setblocking(False)
    return Call(ours)


def _hand_over(control: socket.socket, connection: socket.socket) -> bool:
    try:
        control.sendmsg([b"c"], frames.rights([connection.fileno()]))
    except BlockingIOError:
        return False
    return True


def close_all(fds: Iterable[int]) -> None:
    """Close descriptors."""
    for fd in fds:
        os.close(fd)
