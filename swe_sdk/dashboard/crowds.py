"""Many connections at once: each is an open file, and of those a process may have so many."""

from __future__ import annotations

import resource
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

_MOST_FILES = 65_536
_OWN_FILES = 64
"""For the index, and for what is read of runs."""
IDLE_S = 60
"""A connection that asks for nothing, or only begins to, is closed after so long."""


def allow_many_files() -> None:
    """Take what the system allows this process: the soft limit is made for programs that open a few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def keep_room(server: HTTPServer) -> None:
    """Hang up on whoever would take the last files: those who look already are served on.

    Without it nothing could be read any more, and the loop would try in vain to let the next one in, for ever. The
    system gives each file the lowest number that is free, so that the number tells how many there are.
    """
    let_in = server.handle_stream

    def handle_stream(stream: IOStream, address: Any) -> None:
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and stream.socket.fileno() > soft - _OWN_FILES:
            stream.close()
        else:
            let_in(stream, address)

    server.handle_stream = handle_stream  # type: ignore[method-assign]  # of this one alone, which is bokeh's
