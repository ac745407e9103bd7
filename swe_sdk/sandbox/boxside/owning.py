"""Opens what a program has closed to its own user, where no capability does: as the owner, who may change modes.

A program could else keep the SDK from the files by which it is graded. A mode is changed for the moment of the call,
through a descriptor, so that no link leads the change elsewhere; then it is put back.
"""

from __future__ import annotations

import errno
import os
import stat

_MAX_LINKS = 40
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Allowed:
    """While it is entered, the owner may read and write what the descriptor ``fd`` is of, and pass through it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mode = -1

    def __enter__(self) -> None:
        info = os.fstat(self._fd)
        mode, wanted = stat.S_IMODE(info.st_mode), 0o700 if stat.S_ISDIR(info.st_mode) else 0o600
        if mode & wanted == wanted or info.st_uid != os.geteuid() or stat.S_ISLNK(info.st_mode) or self._may(wanted):
            return
        try:
            os.chmod(self._path, mode | wanted)
        except OSError:
            return  # it is mounted read-only: what is tried next says so
        self._mode = mode

    def __exit__(self, *_exception: object) -> None:
        if self._mode >= 0:
            os.chmod(self._path, self._mode)

    @property
    def _path(self) -> str:
        return f"/proc/self/fd/{self._fd}"

    def _may(self, wanted: int) -> bool:
        """Whether this process may already, by its capabilities."""
        return os.access(self._path, wanted >> 6, effective_ids=True)


def open_within(path: str, flags: int, mode: int = 0) -> int:
    """open(2) of ``path`` below this process's root, whatever modes its owner has given it and its directories."""
    todo, links, here = path.split("/")[::-1], 0, os.open("/", _LOOK)
    try:
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            try:
                found = _look(here, name)
            except FileNotFoundError:
                if todo or not flags & os.O_CREAT:
                    raise
                with Allowed(here):
                    return os.open(name, flags | os.O_EXCL, mode, dir_fd=here)
            if isinstance(found, str):
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                todo += found.split("/")[::-1]
                if not found.startswith("/"):
                    continue
                found = os.open("/", _LOOK)
            os.close(here)
            here = found
        return _open(here, flags)
    finally:
        os.close(here)


def _look(directory: int, name: str) -> int | str:
    """A descriptor of what is there, or the target of a link."""
    with Allowed(directory):
        found = os.open(name, _LOOK, dir_fd=directory)
    if not stat.S_ISLNK(os.fstat(found).st_mode):
        return found
    try:
        return os.readlink("", dir_fd=found)
    finally:
        os.close(found)


def _open(fd: int, flags: int) -> int:
    """Open once more what a descriptor is of."""
    if flags & os.O_PATH:
        return os.dup(fd)
    with Allowed(fd):
        return os.open(f"/proc/self/fd/{fd}", flags & ~os.O_CREAT)
