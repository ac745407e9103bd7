"""Unpacks one layer of a container image into a directory that an overlay can have among its lowers.

The archive is read as the image specification says (github.com/opencontainers/image-spec, layer.md). It may be hostile:
this process has the directory as its root and nothing but a box's own rights before it opens the archive, so that no
name and no link in it leads anywhere else.

All files belong to the box's agent user, as an ordinary user can own nothing else, and programs run as that user. Modes
are kept, setuid bits included: boxes are mounted nosuid, and the state directory is closed to others. Device files are
left out, but for the 0:0 ones that stand for what a layer deletes.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from . import archives, kernel, merging

_T = TypeVar("_T")

_CAPS = frozenset({kernel.CAP_DAC_OVERRIDE, kernel.CAP_FOWNER, kernel.CAP_FSETID})
"""An archive may close a directory to its owner, and put files into it afterwards."""
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_ATTRIBUTE = "SCHILY.xattr."
_PIECE_BYTES = 1 << 20


class BadArchive(ValueError):
    """A layer that no image should have."""


def run(message: dict[str, Any], target: int, blob: int) -> None:
    """What a process does that was made for it: see :func:`unpack`. It is a box's agent when it begins."""
    kernel.set_capabilities(_CAPS | {kernel.CAP_SYS_CHROOT})
    source = archives.Source(blob, message["digest"], message["limit_bytes"])
    os.fchdir(target)
    os.chroot(".")
    kernel.set_capabilities(_CAPS)
    os.close(target)
    os.umask(0)
    unpack(source, limit_entries=message["limit_entries"])


def unpack(source: archives.Source, *, limit_entries: int) -> None:
    """Fill the empty root directory with the archive that ``source`` gives.

    Raises ``BadArchive`` or ``OSError``, and leaves it half full then.
    """
    try:
        with tarfile.TarFile(fileobj=source, encoding="utf-8", errors="surrogateescape") as tar:  # type: ignore[arg-type]
            _Layer(tar, source).unpack(limit_entries)
    except (tarfile.TarError, UnicodeError) as error:
        raise BadArchive(f"it is no sound tar archive: {error}") from None
    source.finish()


class _Layer:
    """The entries of one archive, in their order; a later one replaces an earlier one of its name."""

    def __init__(self, tar: tarfile.TarFile, source: archives.Source) -> None:
        self._tar = tar
        self._source = source
        self._times: dict[str, int] = {}
        """Of directories, set last: each file that comes into one changes its time."""
        self._closed: set[str] = set()
        """Directories through which nothing shows from below."""

    def unpack(self, limit_entries: int) -> None:
        count = 0
        while (member := self._tar.next()) is not None:
            self._tar.members.clear()  # type: ignore[attr-defined]  # it would remember them all
            count += 1
            if count > limit_entries:
                raise BadArchive(f"it has more than {limit_entries:,} entries")
            self._entry(member)
        if any(self._source.last):  # tarfile takes a broken header for the end
            raise BadArchive("it is no sound tar archive: an entry is broken")
        for path in self._closed:
            _drop_whiteouts(path)
        for path, time_ns in reversed(self._times.items()):
            with suppress(FileNotFoundError, NotADirectoryError):  # a later entry took its place
                os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)

    def _entry(self, member: tarfile.TarInfo) -> None:
        parts = _parts(member.name)
        path = "/" + "/".join(parts)
        if not parts:
            if member.isdir():
                self._settle(path, member)
            return
        for attempt in (1, 2):
            try:
                if parts[-1].startswith(_WHITEOUT):
                    self._white_out(parts)
                else:
                    self._make(path, member)
                return
            except (FileNotFoundError, NotADirectoryError):
                if attempt == 2:
                    raise
                self._make_parents(parts)

    def _make(self, path: str, member: tarfile.TarInfo) -> None:
        if member.isdir():
            self._make_directory(path)
            self._settle(path, member)
        elif member.isreg():
            self._file(path, member)
        elif member.islnk():
            first = "/" + "/".join(_parts(member.linkname))
            if first != path:
                _replacing(path, lambda: os.link(first, path, follow_symlinks=False))
        elif member.issym():
            _replacing(path, lambda: os.symlink(member.linkname, path))
            os.utime(path, ns=_times(member), follow_symlinks=False)
        elif member.isfifo():
            _replacing(path, lambda: os.mkfifo(path, 0o600))
            os.chmod(path, stat.S_IMODE(member.mode))
            os.utime(path, ns=_times(member))
        elif not member.isdev():
            raise BadArchive(f"{path!r} is of an unknown kind ({member.type!r})")

    def _file(self, path: str, member: tarfile.TarInfo) -> None:
        file = _replacing(path, lambda: os.open(path, _CREATE, 0o600))
        try:
            for piece in self._content(member):
                _write(file, piece)
            _set_attributes(file, member)
            os.fchmod(file, stat.S_IMODE(member.mode))
            os.utime(file, ns=_times(member))
        finally:
            os.close(file)

    def _content(self, member: tarfile.TarInfo) -> Iterator[bytes | memoryview]:
        if member.size > self._source.left:
            raise BadArchive(f"it is larger than {self._source.limit_bytes:,} bytes")
        if not member.issparse():
            yield from self._source.pieces(member.size)
            return
        file = self._tar.extractfile(member)
        assert file is not None
        while piece := file.read(_PIECE_BYTES):
            self._source.count(len(piece))
            yield piece

    def _settle(self, path: str, member: tarfile.TarInfo) -> None:
        """Give a directory what its entry says."""
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _set_attributes(directory, member)
            os.fchmod(directory, stat.S_IMODE(member.mode))
        finally:
            os.close(directory)
        self._times.pop(path, None)
        self._times[path] = _times(member)[0]

    def _make_parents(self, parts: list[str]) -> None:
        """Directories that have no entry of their own, as engines make them."""
        for end in range(1, len(parts)):
            path = "/" + "/".join(parts[:end])
            found = _look(path)
            if found is None:
                os.mkdir(path, 0o755)
            elif merging.is_whiteout(found):
                self._make_directory(path)
                os.chmod(path, 0o755)  # noqa: S103  # as that of a directory made anew

    def _make_directory(self, path: str) -> None:
        """A directory that was there stays, with what it holds; in place of a whiteout it shows nothing from below."""
        found = _look(path)
        if found is not None and stat.S_ISDIR(found.st_mode):
            return
        if found is not None:
            os.unlink(path)
        os.mkdir(path, 0o700)
        if found is not None and merging.is_whiteout(found):
            self._close(path)

    def _white_out(self, parts: list[str]) -> None:
        """Hide what lies in lower layers: never what this layer itself brings, in whatever order."""
        directory, name = "/" + "/".join(parts[:-1]), parts[-1]
        if name == _OPAQUE:
            self._make_parents(parts)  # in place of a whiteout, which can have no mark
            self._close(directory)
            return
        hidden = name.removeprefix(_WHITEOUT)
        if hidden.startswith(_WHITEOUT):
            return  # what AUFS keeps for itself
        if hidden in ("", ".", ".."):
            raise BadArchive(f"{name!r} hides nothing")
        path = f"{directory.rstrip('/')}/{hidden}"
        found = _look(path)
        if found is None:
            os.mknod(path, stat.S_IFCHR, 0)
        elif stat.S_ISDIR(found.st_mode):
            self._close(path)

    def _close(self, path: str) -> None:
        """Let nothing show through a directory from below."""
        os.setxattr(path, merging.OPAQUE, b"y")
        self._closed.add(path)


def _parts(name: str) -> list[str]:
    """A name as its parts from the root of the image, where absolute ones start as well."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadArchive(f"{name!r} leads out of the image")
    return parts


def _drop_whiteouts(path: str) -> None:
    """What hides nothing would be seen: overlayfs looks for whiteouts only where there is something to hide."""
    found = _look(path)
    if found is None or not stat.S_ISDIR(found.st_mode):
        return  # a later entry took its place
    for top, _directories, files in os.walk(path):
        for name in files:
            if merging.is_whiteout(os.lstat(f"{top}/{name}")):
                os.unlink(f"{top}/{name}")


def _look(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _replacing(path: str, make: Callable[[], _T]) -> _T:
    """Make something at ``path``, in place of what is there."""
    try:
        return make()
    except FileExistsError:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return make()


def _write(file: int, piece: bytes | memoryview) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(file, view) :]


def _set_attributes(file: int, member: tarfile.TarInfo) -> None:
    """Extended attributes that users may set, but for those which mean something to overlayfs."""
    for key, value in member.pax_headers.items():
        name = key.removeprefix(_ATTRIBUTE)
        if name != key and name.startswith("user.") and not name.startswith("user.overlay."):
            try:
                os.setxattr(file, name, os.fsencode(value))
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.ENOSPC, errno.E2BIG):
                    raise


def _times(member: tarfile.TarInfo) -> tuple[int, int]:
    """Access and modification time in nanoseconds: the latter twice, as engines do."""
    text = member.pax_headers.get("mtime")
    if text is None:
        time_ns = int(member.mtime) * 10**9
    else:
        seconds, _, fraction = text.partition(".")
        below = int(f"{fraction:0<9.9}") if fraction else 0
        time_ns = int(seconds) * 10**9 + (-below if seconds.startswith("-") else below)
    return time_ns, time_ns
