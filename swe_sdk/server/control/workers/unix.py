"""Unix sockets between the processes of one server.

anyio has streams of its own for them. They write a traceback into the log where a task that reads is cancelled at the
very moment at which something arrives; to wait for a descriptor, as is done here, does not.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteStream

from swe_sdk.sandbox.waiting import readable, writable

_BACKLOG = 1024
_PAUSE_S = 0.05


class UnixStream(ByteStream):
    """A connected socket, for one task that reads and one that writes; closed by whoever is done with it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock

    async def receive(self, max_bytes: int = 1 << 16) -> bytes:
        """At least a byte and at most ``max_bytes``; ``EndOfStream`` where no more will come."""
        while True:
            await self._ready(readable)
            try:
                data = self._sock.recv(max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error
            if not data:
                raise anyio.EndOfStream
            return data

    async def send(self, item: bytes) -> None:
        """All of it; ``BrokenResourceError`` where nobody reads any more."""
        rest = memoryview(item)
        while rest:
            await self._ready(writable)
            try:
                rest = rest[self._sock.send(rest) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise anyio.BrokenResourceError from error

    async def _ready(self, wait: Callable[[socket.socket], Awaitable[None]]) -> None:
        if self._sock.fileno() < 0:
            raise anyio.ClosedResourceError
        await wait(self._sock)

    async def send_eof(self) -> None:
        """Nothing more is sent; the other side may go on."""
        self._sock.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Whoever waits for it gets ``ClosedResourceError``."""
        if self._sock.fileno() >= 0:
            anyio.notify_closing(self._sock)
            self._sock.close()


def connected(path: Path) -> UnixStream:
    """To whoever listens there; ``OSError`` where nobody does, or too many are waiting already."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        stream = UnixStream(sock)
        sock.connect(str(path))
    except BaseException:
        sock.close()
        raise
    return stream


def listening(path: Path) -> socket.socket:
    """A new socket at ``path`` that only this user can connect to. ``OSError``."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.setblocking(False)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


async def serve(listener: socket.socket, handler: Callable[[UnixStream], Coroutine[Any, Any, None]]) -> None:
    """Call ``handler`` for each connection, side by side, until cancelled; the listener is closed then."""
    with listener:
        async with anyio.create_task_group() as tasks:
            while True:
                await readable(listener)
                try:
                    sock, _address = listener.accept()
                except OSError:  # who was there has left again; or we have no descriptor for it, which lasts
                    await anyio.sleep(_PAUSE_S)
                    continue
                tasks.start_soon(handler, UnixStream(sock))
