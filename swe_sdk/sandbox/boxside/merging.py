"""Copies layers of an overlay into a single one: through the copy, a box sees what it saw through all of them.

One layer makes a plain copy, several are flattened. Whiteouts and opaque directories, in the ``userxattr`` form of the
kernel's Documentation/filesystems/overlayfs.rst, are honoured among the layers, and kept for what will lie below.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import sys

from . import owning

OPAQUE = "user.overlay.opaque"
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_")
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOATIME
_READ_DIRECTORY = _READ | os.O_DIRECTORY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def allow_depth() -> None:
    """Programs make directories within directories without end: a descriptor or two are needed for each level."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    sys.setrecursionlimit(1 << 20)


def merge(layers: list[str], target: str, *, within: int) -> None:
    """Fill the empty directory ``target`` with what ``layers`` amount to, from the top down.

    All are paths below the directory ``within``. Kept are contents with their holes, modes, owners, times, extended
    attributes, links, pipes, sockets (dead, as after a crash) and any name. Raises ``OSError``, and leaves ``target``
    half full then.
    """
    root = os.open(target, _READ_DIRECTORY, dir_fd=within)
    opened = [os.open(layer, _READ_DIRECTORY, dir_fd=within) for layer in layers]
    try:
        _Merge(root).directory(opened, root, "", is_closed=False)
    finally:
        _close(root, *opened)


class _Merge:
    """One merge into the directory ``root``."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._first_names: dict[tuple[int, int], str] = {}
        """Where the first of several links to a file was made, by device and inode of the original."""

    def directory(self, layers: list[int], target: int, path: str, *, is_closed: bool) -> None:
        """Merge directories that show through each other. ``is_closed``: nothing further down shows through here."""
        info = os.fstat(layers[0])
        passages = [owning.Allowed(layer) for layer in layers]
        try:
            for passage in passages:
                passage.__enter__()
            self._entries(layers, target, path, is_closed=is_closed)
            _copy_attributes(layers[0], target, info)
        finally:
            for passage in passages:
                passage.__exit__()

    def _entries(self, layers: list[int], target: int, path: str, *, is_closed: bool) -> None:
        holders: dict[str, list[int]] = {}
        for layer in layers:
            for name in os.listdir(layer):
                holders.setdefault(name, []).append(layer)
        for name, found in holders.items():
            info = os.stat(name, dir_fd=found[0], follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode):
                self._subdirectory(name, found, target, path, is_closed=is_closed)
            elif not (is_closed and is_whiteout(info)):
                self._leaf(name, found[0], info, target, path)

    def _subdirectory(self, name: str, found: list[int], parent: int, path: str, *, is_closed: bool) -> None:
        layers, hides = _visible(name, found)
        os.mkdir(name, 0o700, dir_fd=parent)
        target = os.open(name, _READ_DIRECTORY, dir_fd=parent)
        try:
            if hides and not is_closed:
                os.setxattr(target, OPAQUE, b"y")
            self.directory(layers, target, f"{path}{name}/", is_closed=is_closed or hides)
        finally:
            _close(target, *layers)

    def _leaf(self, name: str, layer: int, info: os.stat_result, target: int, path: str) -> None:
        if info.st_nlink > 1:
            first = self._first_names.setdefault((info.st_dev, info.st_ino), path + name)
            if first != path + name:
                os.link(first, name, src_dir_fd=self._root, dst_dir_fd=target, follow_symlinks=False)
                return
        if stat.S_ISREG(info.st_mode):
            _copy_file(name, layer, info, target)
        else:
            _copy_special(name, layer, info, target)


def _visible(name: str, found: list[int]) -> tuple[list[int], bool]:
    """The directories called ``name`` that show through each other, opened, and whether they hide what lies below."""
    layers: list[int] = []
    for layer in found:
        info = os.stat(name, dir_fd=layer, follow_symlinks=False)
        if not stat.S_ISDIR(info.st_mode):
            return layers, True
        layers.append(_open(name, _READ_DIRECTORY, layer))
        with owning.Allowed(layers[-1]):
            if _is_opaque(layers[-1]):
                return layers, True
    return layers, False


def _is_opaque(directory: int) -> bool:
    try:
        return os.getxattr(directory, OPAQUE) == b"y"
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        return False


def is_whiteout(info: os.stat_result) -> bool:
    """Whether this is what hides a name of the layers below."""
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def _copy_file(name: str, layer: int, info: os.stat_result, parent: int) -> None:
    source = _open(name, _READ, layer)
    target = os.open(name, _CREATE, 0o600, dir_fd=parent)
    try:
        os.ftruncate(target, info.st_size)
        _copy_data(source, target, info.st_size)
        with owning.Allowed(source):
            _copy_attributes(source, target, info)
    finally:
        _close(source, target)


def _open(name: str, flags: int, parent: int) -> int:
    """open(2) of a file or a directory, also where a program has closed it to its own user."""
    try:
        return os.open(name, flags, dir_fd=parent)
    except PermissionError:
        closed = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            with owning.Allowed(closed):
                return os.open(name, flags, dir_fd=parent)
        finally:
            os.close(closed)


def _copy_data(source: int, target: int, size: int) -> None:
    """Copy what is not a hole; by reference, where the file system can."""
    end = 0
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # nothing but a hole follows
        end = os.lseek(source, start, os.SEEK_HOLE)
        while start < end:
            copied = os.copy_file_range(source, target, end - start, start, start)
            if not copied:
                return  # the file was cut meanwhile
            start += copied


def _copy_special(name: str, layer: int, info: os.stat_result, parent: int) -> None:
    """A symbolic link, a pipe, a socket or a whiteout."""
    if stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(name, dir_fd=layer), name, dir_fd=parent)
    else:
        os.mknod(name, info.st_mode, info.st_rdev, dir_fd=parent)
    os.chown(name, info.st_uid, info.st_gid, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISLNK(info.st_mode):
        os.chmod(name, stat.S_IMODE(info.st_mode), dir_fd=parent)
    os.utime(name, ns=(info.st_atime_ns, info.st_mtime_ns), dir_fd=parent, follow_symlinks=False)


def _copy_attributes(source: int, target: int, info: os.stat_result) -> None:
    """Owner before mode, which a change of owner would reduce; times last."""
    for name in os.listxattr(source):
        if name.startswith(_KEPT_ATTRIBUTES):
            os.setxattr(target, name, os.getxattr(source, name))
    os.fchown(target, info.st_uid, info.st_gid)
    os.fchmod(target, stat.S_IMODE(info.st_mode))
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
