"""Opening and copying a box's files for the SDK, wherever a program in it may have put links, pipes and devices."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from . import kernel, owning

# O_NONBLOCK: opening a pipe or a device must not hang whoever opens it
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_PIECE_BYTES = 4 << 20
"""How much of a file is copied before others have their turn."""


Owner = tuple[int, int]
"""User and group."""


def open_regular(root: int, path: str, *, write: bool, mode: int, owner: Owner | None = None) -> int:
    """A descriptor of the regular file at ``path`` below the directory ``root``, where all links end, too.

    For writing it is made with its directories if it is not there, for ``owner`` where that is not this process's own
    user, and emptied. ``OSError`` where there is none.

    Links that only the kernel can follow, and /proc as a whole, are refused: /proc/self means another process to us
    than to the program that has put a link there, and would lead to the supervisor's own files and memory.
    """
    if write:
        make_directories(root, os.path.dirname(path), owner)
        fd = _open_to_write(root, path, mode, owner)
    else:
        fd = _open(root, path, _FLAGS | os.O_RDONLY)
    try:
        _require_regular(fd, root, path)
        if write:
            os.ftruncate(fd, 0)
            os.fchmod(fd, mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open(root: int, path: str, flags: int, mode: int = 0) -> int:
    """open(2) below ``root``. What a program has closed to its user is opened, too: by capabilities, or by its mode."""
    try:
        return kernel.open_within(root, path, flags, mode)
    except PermissionError:
        return owning.open_within(path, flags, mode)


def _require_regular(fd: int, root: int, path: str) -> None:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        raise OSError(0, f"{path} is not a regular file")
    if info.st_dev == os.stat("proc", dir_fd=root, follow_symlinks=False).st_dev:
        raise OSError(errno.EACCES, f"{path} leads into /proc")


def _open_to_write(root: int, path: str, mode: int, owner: Owner | None) -> int:
    if owner is None:
        return _open(root, path, _FLAGS | os.O_WRONLY | os.O_CREAT, mode)
    try:
        return _open(root, path, _FLAGS | os.O_WRONLY)
    except FileNotFoundError:
        fd = _open(root, path, _FLAGS | os.O_WRONLY | os.O_CREAT, mode)
        os.fchown(fd, *owner)
        return fd


def make_directories(root: int, path: str, owner: Owner | None = None) -> None:
    """``mkdir -p`` below ``root``, from the first directory that is missing."""
    try:
        os.close(_open(root, path or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except FileNotFoundError:
        parent, _, name = path.rstrip("/").rpartition("/")
        make_directories(root, parent, owner)
        holder = _open(root, parent or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with owning.Allowed(holder):
                os.mkdir(name, dir_fd=holder)
            if owner is not None:
                os.chown(name, *owner, dir_fd=holder, follow_symlinks=False)
        except FileExistsError:
            pass  # somebody else made it meanwhile, or it is a link to nowhere
        finally:
            os.close(holder)


class Transfer:
    """A file on its way into the box or out of it. Both ends are owned, and closed by :meth:`close`.

    The SDK sends its end and gets none of ours: descriptors on their way are counted for each user, so that a program
    could otherwise use up the count, and with it the supervisor's power to answer. What is copied is ``size`` bytes at
    most: a program may let its file grow for ever.
    """

    def __init__(self, source: int, target: int, size: int) -> None:
        self._source = source
        self._target = target
        self._left = size
        self.copied = 0

    def step(self) -> bool:
        """Copy a piece; False when there is nothing left."""
        copied = os.sendfile(self._target, self._source, None, min(self._left, _PIECE_BYTES))
        self._left -= copied
        self.copied += copied
        return copied > 0

    def undo(self) -> None:
        """Leave no half of a file behind, for which there was no room."""
        with suppress(OSError):
            os.ftruncate(self._target, 0)

    def close(self) -> None:
        """Let go of both files."""
        os.close(self._source)
        os.close(self._target)
