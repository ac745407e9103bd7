"""Opening a box's files for the SDK, wherever a program of the box may have put links, pipes and devices."""

from __future__ import annotations

import errno
import os
import stat

from . import kernel

# O_NONBLOCK: opening a pipe or a device must not hang whoever opens it
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_regular(root: int, path: str, *, write: bool, mode: int) -> int:
    """A descriptor of the regular file at ``path`` below the directory ``root``, where all links end, too.

    For writing it is made with its directories if it is not there, and emptied. ``OSError`` where there is none.

    Links that only the kernel can follow, and /proc as a whole, are refused: /proc/self means another process to us
    than to the program that has put a link there, and would lead to the supervisor's own files and memory.
    """
    if write:
        _make_directories(root, os.path.dirname(path))
        fd = kernel.open_within(root, path, _FLAGS | os.O_WRONLY | os.O_CREAT, mode)
    else:
        fd = kernel.open_within(root, path, _FLAGS | os.O_RDONLY)
    try:
        _require_regular(fd, root, path)
        if write:
            os.ftruncate(fd, 0)
            os.fchmod(fd, mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _require_regular(fd: int, root: int, path: str) -> None:
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        raise OSError(0, f"{path} is not a regular file")
    if info.st_dev == os.stat("proc", dir_fd=root, follow_symlinks=False).st_dev:
        raise OSError(errno.EACCES, f"{path} leads into /proc")


def _make_directories(root: int, path: str) -> None:
    """``mkdir -p``, from the first directory that is missing."""
    try:
        os.close(kernel.open_within(root, path or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except FileNotFoundError:
        parent, _, name = path.rstrip("/").rpartition("/")
        _make_directories(root, parent)
        holder = kernel.open_within(root, parent or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.mkdir(name, dir_fd=holder)
        except FileExistsError:
            pass  # somebody else made it meanwhile, or it is a link to nowhere
        finally:
            os.close(holder)
