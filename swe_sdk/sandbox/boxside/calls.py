"""What the SDK asks a supervisor for: a connection for each call, and the command that runs in it."""

from __future__ import annotations

import socket
from typing import Any

from . import frames
from .spawning import Birth

_REPLY_CAP_S = 5.0
"""How long a caller may take to read its reply."""


class Command:
    """One command: its connection, its first process, and how its end is reached."""

    def __init__(self, connection: Connection, mark: int, pid: int, birth: Birth | None = None) -> None:
        self.connection = connection
        self.birth = birth
        """Where it may not have become a program yet, or never."""
        self.mark = mark
        """See :data:`processes.RLIMIT_MARK`."""
        self.pid = pid
        self.exit: dict[str, Any] | None = None
        self.kill_after: float | None = None
        """When politeness ends; None = nobody has asked for its end."""
        self.give_up: float = 0.0
        self.out_of_memory = False
        self.over_disk_limit = False

    @property
    def is_dying(self) -> bool:
        """Whether somebody has asked for its end."""
        return self.kill_after is not None


class Connection:
    """One call of the SDK."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.decoder = frames.Decoder()
        self.command: Command | None = None

    def reply(self, message: frames.Message, fds: tuple[int, ...] = ()) -> None:
        """Send one frame. Its caller waits for it, and so reads it at once; a caller that is gone is no error."""
        data, ancillary = frames.encode(message), frames.rights(fds)
        try:
            try:
                sent = self.sock.sendmsg([data], ancillary)
            except BlockingIOError:
                sent = 0
            if sent < len(data):  # a list of processes may be larger than the socket's buffer
                self._send_patiently(data[sent:], ancillary if sent == 0 else [])
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass

    def _send_patiently(self, data: bytes, ancillary: frames.Ancillary) -> None:
        self.sock.settimeout(_REPLY_CAP_S)
        try:
            self.sock.sendall(data[self.sock.sendmsg([data], ancillary) :])
        finally:
            self.sock.setblocking(False)

    def close(self) -> None:
        """End the call."""
        self.decoder.close()
        self.sock.close()
