"""Waiting until descriptors are ready, also where the kernel grants this user no further epoll watch.

It counts them for each user, and an ordinary user's boxes are that user: a program in one of them can use them all up.
Then we look every few milliseconds instead, so that all boxes go on and can be closed.
"""

from __future__ import annotations

import errno
import select
from collections.abc import Iterable
from typing import Protocol

import anyio

_LOOK_S = 0.005


class HasFileno(Protocol):
    """A socket, an epoll object, ..."""

    def fileno(self) -> int:
        """Its descriptor."""


async def readable(what: HasFileno | int) -> None:
    """Wait until ``what`` can be read, or has come to its end."""
    try:
        await anyio.wait_readable(what)
    except OSError as error:
        await _look(_fileno(what), select.POLLIN, error)


async def writable(what: HasFileno | int) -> None:
    """Wait until ``what`` can be written."""
    try:
        await anyio.wait_writable(what)
    except OSError as error:
        await _look(_fileno(what), select.POLLOUT, error)


async def _look(fd: int, event: int, error: OSError) -> None:
    _require_no_watches(error)
    poll = select.poll()
    poll.register(fd, event)
    while not poll.poll(0):
        await anyio.sleep(_LOOK_S)


def _fileno(what: HasFileno | int) -> int:
    return what if isinstance(what, int) else what.fileno()


def _require_no_watches(error: OSError) -> None:
    if error.errno != errno.ENOSPC:
        raise error


def has_ended(pidfd: int, *, within_s: float = 0.0) -> bool:
    """Whether a process, by its pidfd, has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


class Readers:
    """Several descriptors, any of which may become readable. A context manager."""

    def __init__(self, fds: Iterable[int]) -> None:
        self._epoll: select.epoll | None = select.epoll()
        self._poll: select.epoll | select.poll = self._epoll
        try:
            self._add(fds := list(fds))
        except OSError as error:
            self.close()
            _require_no_watches(error)
            self._poll = select.poll()
            self._add(fds)

    def _add(self, fds: Iterable[int]) -> None:
        for fd in fds:
            self._poll.register(fd, select.POLLIN)

    async def ready(self) -> list[int]:
        """Wait until some are readable; those."""
        if self._epoll is not None:
            await readable(self._epoll)
        while not (found := [fd for fd, _events in self._poll.poll(0)]):
            await anyio.sleep(_LOOK_S)
        return found

    def remove(self, fd: int) -> None:
        """One has come to its end."""
        self._poll.unregister(fd)

    def close(self) -> None:
        """Give the kernel's object back."""
        epoll, self._epoll = self._epoll, None
        if epoll is not None:
            epoll.close()

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
