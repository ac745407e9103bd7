"""How a box's supervisor finds the SDK: by a unix socket, in a directory that only this box gets to see."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import time
from pathlib import Path

import anyio

from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.boxside import inside
from swe_sdk.sandbox.providers.docker.container import SOCKET
from swe_sdk.sandbox.waiting import readable

_MOST_WORDS = 4096
_STALE_S = 3600.0


class Arrival:
    """Listens in a new directory for one supervisor. A context manager: both are gone afterwards."""

    def __init__(self, directory: Path) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o711)
        self.directory = directory
        self._visitor: socket.socket | None = None
        """The supervisor, until it has said its first word."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # by descriptor: the path of a socket has at most 107 bytes, that of a state directory may have more
            self._listener.bind(f"/proc/self/fd/{fd}/{SOCKET}")
            # where the engine maps users, root in a box is nobody here; who is let in, accept() says
            os.chmod(SOCKET, 0o666, dir_fd=fd)  # noqa: S103
        finally:
            os.close(fd)
        self._listener.listen(8)

    async def accept(self, pid: int) -> socket.socket:
        """The control socket of the supervisor, which is process ``pid`` of this machine; everybody else is refused.

        May be cancelled and called again: who has come stays. Raises ``CreateFailed`` with the supervisor's own word
        where it could not start.
        """
        while self._visitor is None:
            await readable(self._listener)
            visitor, _address = self._listener.accept()
            if _peer(visitor) == pid:
                visitor.setblocking(False)
                self._visitor = visitor
            else:
                visitor.close()
        await _first_word(self._visitor)
        control, self._visitor = self._visitor, None
        return control

    def close(self) -> None:
        """Nobody can connect any more. What is bound into the box is then an empty directory without a name."""
        self._listener.close()
        if self._visitor is not None:
            self._visitor.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Arrival:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _peer(connection: socket.socket) -> int:
    """Which process has connected: the kernel's word."""
    size = struct.calcsize("3i")
    pid: int = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0]
    return pid


async def _first_word(connection: socket.socket) -> None:
    await readable(connection)
    word = connection.recv(1)
    if word == inside.READY:
        return
    with anyio.move_on_after(1):
        await readable(connection)
    said = connection.recv(_MOST_WORDS).decode("utf-8", "replace") if word else "it died"
    raise CreateFailed(f"the supervisor could not start in its container: {said}")


def forget_stale(home: Path) -> None:
    """Remove the directories of processes that died while they made a box. None is needed for more than a minute."""
    for directory in home.glob("*"):
        try:
            if directory.stat().st_mtime < time.time() - _STALE_S:
                shutil.rmtree(directory, ignore_errors=True)
        except FileNotFoundError:
            pass  # another process was faster
