"""How much disk the writable layer of a box holds, looked at piece by piece.

The kernel has no limit for that which an ordinary user could set.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Collection

from . import owning

_BLOCK_BYTES = 512
_PIECE = 500
"""Entries that are looked at before others have their turn."""
_REST_S, _REST_FACTOR = 0.1, 5
"""Between two looks; or so many times as long as the last one took, where that is more."""
_GLANCE_S = 0.25
"""Between two looks at nothing but how much the disk has left."""
_CLOCK_TICK_S = 0.05
"""The clock of a file system lags behind."""
_LEAST_BYTES = 4096
"""Of anything that has a name: its entry and its inode take room too."""
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class TooDeep(Exception):
    """More directories within one another than can be looked into."""


class Watch:
    """Looks from time to time whether a layer holds more than ``limit_bytes``, and does so a little at a time."""

    rest_factor = _REST_FACTOR

    def __init__(self, top: int, limit_bytes: int) -> None:
        self._top = top
        self._limit = limit_bytes
        self._tolerated = limit_bytes
        self._before = (0, _free_bytes(top))
        """What it held when all of it could be looked at last, and what its file system had free then."""
        self._is_suspected = False
        self.is_settling = False
        """Whether it has to see what those who had to end have left, even where nothing runs."""
        self._walk: Walk | None = None
        self._began = self._next_look = 0.0

    @property
    def patience_s(self) -> float:
        """How long it may be before the next :meth:`look`."""
        is_urgent = self._walk or self.is_settling or self._is_suspected
        return 0.0 if is_urgent else max(0.0, self._next_look - time.monotonic())

    def allow(self, size: int) -> None:
        """Take so much more for what no program has written."""
        self._tolerated += size

    def look(self, pids: Collection[int]) -> bool:
        """One more piece. True where the programs ``pids`` must end: they write, and there is too much.

        Programs that only make a layer smaller are let be, however large it still is.
        """
        if self._walk is None:
            self._began = time.monotonic()
            self._walk = self._new_walk()
        try:
            if self._walk.step():
                return False
            held = self._walk.bytes + deleted_bytes(pids, os.stat("/").st_dev)
            self._before = (held, _free_bytes(self._top))
        except TooDeep:
            held_before, free_before = self._before
            held = held_before + max(0, free_before - _free_bytes(self._top))
        self._rest()
        return self._judge(held)

    def _new_walk(self) -> Walk:
        return Walk(self._top)

    def _judge(self, held: int) -> bool:
        is_more = held > self._tolerated
        if is_more and not self._is_suspected and not self.is_settling:
            self._is_suspected = True  # what was renamed meanwhile may have been counted twice: look again, at once
            return False
        self._is_suspected = False
        self.is_settling, self._tolerated = is_more and not self.is_settling, max(self._limit, held)
        return self.is_settling

    def _rest(self) -> None:
        if self._walk is not None:
            self._walk.close()
            self._walk = None
        now = time.monotonic()
        self._next_look = now + max(_REST_S, self.rest_factor * (now - self._began))


def _free_bytes(directory: int) -> int:
    info = os.statvfs(directory)
    return info.f_bavail * info.f_frsize


class WatchOfChanges(Watch):
    """The same where the layer cannot be seen by itself: what was changed since then, on the file system of ``/``.

    To look at everything takes long where there is an image below, so it is done rarely; but soon where the disk has
    lost more than the limit meanwhile, whoever it was.
    """

    rest_factor = 50

    def __init__(self, limit_bytes: int) -> None:
        self._since_s = time.time() - _CLOCK_TICK_S
        self._free_before = 0
        self._next_glance = 0.0
        super().__init__(os.open("/", _OPEN_DIRECTORY), limit_bytes)
        self._free_before = _free_bytes(self._top)

    @property
    def patience_s(self) -> float:
        """How long it may be before the next :meth:`look`."""
        return min(super().patience_s, max(0.0, self._next_glance - time.monotonic()))

    def look(self, pids: Collection[int]) -> bool:
        """One more piece, where it is time for that or the disk is filling."""
        if super().patience_s > 0:
            self._next_glance = time.monotonic() + _GLANCE_S
            if self._free_before - _free_bytes(self._top) <= self._limit:
                return False
        is_over = super().look(pids)
        if self._walk is None:
            now = time.monotonic()
            self._next_glance = now + max(_GLANCE_S, _REST_FACTOR * (now - self._began))
        return is_over

    def _new_walk(self) -> Walk:
        return Walk(self._top, self._since_s)


class Walk:
    """Adds up what lies below the directory ``top`` (a descriptor, which stays the caller's).

    With ``since_s`` (Unix seconds): what was changed since then, and in no other file system.
    """

    def __init__(self, top: int, since_s: float | None = None) -> None:
        self.bytes = 0
        self._since_s = since_s
        self._device = None if since_s is None else os.fstat(top).st_dev
        self._levels: list[tuple[int, os._ScandirIterator[str], _Passage]] = []
        self._seen: set[int] = set()
        """Directories, by inode: one that is renamed meanwhile must not count twice."""
        self._enter(".", top, 0)

    def step(self) -> bool:
        """Look at one more piece; False when there is none. ``TooDeep`` where it cannot go on."""
        for _ in range(_PIECE):
            if not self._levels:
                return False
            fd, listing, _passage = self._levels[-1]
            entry = next(listing, None)
            if entry is None:
                self._leave()
            else:
                self._count(fd, entry)
        return True

    def _count(self, fd: int, entry: os.DirEntry[str]) -> None:
        try:
            info = entry.stat(follow_symlinks=False)
            if self._since_s is None or info.st_ctime >= self._since_s:
                self.bytes += max(_LEAST_BYTES, info.st_blocks * _BLOCK_BYTES // max(1, info.st_nlink))
            if stat.S_ISDIR(info.st_mode) and info.st_ino not in self._seen and self._device in (None, info.st_dev):
                self._enter(entry.name, fd, info.st_ino)
        except OSError:
            pass  # a program has just removed it

    def _enter(self, name: str, parent: int, inode: int) -> None:
        fd, passage = -1, _Passage("/".join((*(passage.path for _fd, _listing, passage in self._levels[-1:]), name)))
        try:
            fd = passage.open(name, parent)
            self._levels.append((fd, os.scandir(fd), passage))
            self._seen.add(inode)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            passage.close()
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise TooDeep from error  # else it is no directory any more

    def _leave(self) -> None:
        fd, listing, passage = self._levels.pop()
        listing.close()
        os.close(fd)
        passage.close()

    def close(self) -> None:
        """Give it up."""
        while self._levels:
            self._leave()


class _Passage:
    """The way into a directory of a layer, which a program may have closed to its user.

    Where no capability opens it, it is opened as the directory of the box that it is, as long as it is looked into.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        """Below the box's root."""
        self._held: tuple[int, owning.Allowed] | None = None

    def open(self, name: str, parent: int) -> int:
        """A descriptor of the directory ``name`` within the layer's directory ``parent``."""
        try:
            return os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
        except PermissionError:
            fd = owning.open_within(self.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            allowed = owning.Allowed(fd)
            self._held = fd, allowed
            allowed.__enter__()
            return os.open(name, _OPEN_DIRECTORY, dir_fd=parent)

    def close(self) -> None:
        """Close it again."""
        held, self._held = self._held, None
        if held is not None:
            try:
                held[1].__exit__()
            except OSError:
                pass  # a program has just removed it
            finally:
                os.close(held[0])


def deleted_bytes(pids: Collection[int], device: int) -> int:
    """What files without a name hold that these processes have open on ``device``, each of them once."""
    found: dict[int, int] = {}
    for pid in pids:
        for number in _descriptors(pid):
            try:
                info = os.stat(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue  # closed meanwhile
            if info.st_nlink == 0 and stat.S_ISREG(info.st_mode) and info.st_dev == device:
                found[info.st_ino] = info.st_blocks * _BLOCK_BYTES
    return sum(found.values())


def _descriptors(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []  # it has gone, or hides itself
