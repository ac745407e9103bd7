"""Changes of a file tree, and its description: one program, run in a box and, on a plain directory, on the host.

It is sent to the box as source text, so it needs nothing but the standard library, and of that only what starts fast.
Where overlayfs differs from a plain directory, the host's side follows it as documented in the kernel's overlayfs.rst:

* directories of frozen layers cannot be renamed (EXDEV), and ``mv`` copies them;
* a file of a frozen layer that has several links loses them when it is changed;
* a file of a frozen layer cannot be renamed to a link that was made of it since (ESTALE), which should do nothing;
* a file of a frozen layer and a link that was made of it since are opened by permissions of their own: where both were
  changed, the older of them may count. So files with several links are never closed to their owner here (EMLINK).
"""

from __future__ import annotations

import errno
import marshal
import os
import stat
import sys
import zlib

FORMAT = 2
"""Of requests and answers, by ``marshal``: every Python reads it, and faster than anything else that it brings."""
COPIED = -1
"""The result of a ``move`` that was refused as a rename, and so copied."""
_FILE_MODES = (0o644, 0o600, 0o755, 0o444, 0o400, 0o000, 0o4755)
_DIRECTORY_MODES = (0o755, 0o700, 0o1777, 0o2755)
_OPEN = stat.S_IRUSR | stat.S_IWUSR
_BOX_RULES = (errno.EXDEV, errno.EMLINK)
_FIRST_TIME_NS = 1_600_000_000_123_456_789


class Operation:
    """One change. The numbers choose among what is there when it is made.

    ``which`` chooses what is changed, ``where`` the directory in which ``name`` is made, ``value`` a content, size,
    mode or time.
    """

    def __init__(self, kind: str, which: int, where: int, name: str, value: int) -> None:
        self.kind, self.which, self.where, self.name, self.value = kind, which, where, name, value

    def __repr__(self) -> str:
        return f"Operation{tuple(vars(self).values())}"


class Tree:
    """A directory that is changed. ``frozen``: inodes of files with several links that lie in a frozen layer."""

    def __init__(self, root: str, frozen: set[tuple[int, int]] | None = None) -> None:
        self.root = root
        self.frozen = frozen if frozen is not None else set()

    def apply(self, operations: list[Operation], begin: int, told: list[int] | None = None) -> list[int]:
        """The results: 0, an errno, or ``COPIED``. ``told`` are those of the box, where they rule."""
        results: list[int] = []
        for number, operation in enumerate(operations):
            self._is_box, self._told = told is None, told[number] if told is not None else 0
            self._now = _FIRST_TIME_NS + (begin + number) * 1_000_000_007
            results.append(self._told if self._told in _BOX_RULES else self._result(operation))
            self.frozen &= {self._identity(path) for path in self._paths(stat.S_ISREG)}
        return results

    def _result(self, operation: Operation) -> int:
        try:
            return getattr(self, f"_do_{operation.kind}")(operation) or 0
        except OSError as error:
            return error.errno or 0

    # -- what there is ----------------------------------------------------------------------------------------------

    def walk(self) -> list[tuple[str, os.stat_result]]:
        """Everything below the root, by relative path, in the order of names."""
        found, pending = [], [""]
        while pending:
            directory = pending.pop()
            for name in sorted(os.listdir(self.full(directory)), reverse=True):
                path = f"{directory}/{name}" if directory else name
                info = os.lstat(self.full(path))
                found.append((path, info))
                if stat.S_ISDIR(info.st_mode):
                    pending.append(path)
        return sorted(found, key=lambda entry: os.fsencode(entry[0]))

    def full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _identity(self, path: str) -> tuple[int, int]:
        info = os.lstat(self.full(path))
        return info.st_dev, info.st_ino

    def _paths(self, *kinds) -> list[str]:
        return [path for path, info in self.walk() if any(kind(info.st_mode) for kind in kinds)]

    def _pick(self, which: int, *kinds) -> str:
        paths = self._paths(*kinds)
        if not paths:
            raise OSError(errno.ENOENT, "nothing to choose from")
        return paths[which % len(paths)]

    def _place(self, operation: Operation) -> str:
        directories = ["", *self._paths(stat.S_ISDIR)]
        directory = directories[operation.where % len(directories)]
        return f"{directory}/{operation.name}" if directory else operation.name

    # -- contents ---------------------------------------------------------------------------------------------------

    def _open(self, path: str, flags: int) -> int:
        """Open for writing, as an owner without special powers would: a root's test must not see more than a user's."""
        full = self.full(path)
        if os.path.lexists(full):
            mode = os.lstat(full).st_mode
            if stat.S_ISREG(mode):
                if not mode & stat.S_IWUSR:
                    raise OSError(errno.EACCES, "not writable")
                self._part(path)
                os.chmod(full, stat.S_IMODE(mode) & 0o777)  # root's writes would leave the setuid bit
            elif not stat.S_ISDIR(mode) and not stat.S_ISLNK(mode):
                raise OSError(errno.ENXIO, "a pipe or socket")
        return os.open(full, os.O_WRONLY | os.O_NOFOLLOW | flags, 0o644)

    def _part(self, path: str) -> None:
        """What overlayfs does to a link of a frozen file before it is changed: it becomes a file of its own."""
        full = self.full(path)
        info = os.lstat(full)
        if (info.st_dev, info.st_ino) in self.frozen:
            _copy_tree(full, f"{full}.parted")
            os.rename(f"{full}.parted", full)

    def _write(self, path: str, flags: int, data: bytes, offset: int = 0) -> None:
        fd = self._open(path, flags)
        try:
            if offset:
                os.lseek(fd, offset, os.SEEK_SET)
            os.write(fd, data)
            os.utime(fd, ns=(self._now, self._now))
        finally:
            os.close(fd)

    def _do_create(self, operation: Operation) -> None:
        self._write(self._place(operation), os.O_CREAT | os.O_TRUNC, _content(operation.value))

    def _do_rewrite(self, operation: Operation) -> None:
        self._write(self._pick(operation.which, stat.S_ISREG), os.O_TRUNC, _content(operation.value))

    def _do_append(self, operation: Operation) -> None:
        self._write(self._pick(operation.which, stat.S_ISREG), os.O_APPEND, _content(operation.value))

    def _do_patch(self, operation: Operation) -> None:
        self._write(self._pick(operation.which, stat.S_ISREG), 0, b"patched", offset=operation.value % 300)

    def _do_sparse(self, operation: Operation) -> None:
        self._write(self._place(operation), os.O_CREAT, b"end", offset=operation.value * 4096)

    def _do_truncate(self, operation: Operation) -> None:
        fd = self._open(self._pick(operation.which, stat.S_ISREG), 0)
        try:
            os.ftruncate(fd, operation.value * 37 % 9000)
            os.utime(fd, ns=(self._now, self._now))
        finally:
            os.close(fd)

    # -- names ------------------------------------------------------------------------------------------------------

    def _do_mkdir(self, operation: Operation) -> None:
        os.mkdir(self.full(self._place(operation)), 0o755)

    def _do_symlink(self, operation: Operation) -> None:
        path = self.full(self._place(operation))
        os.symlink(f"{operation.name}/../{operation.value}", path)
        os.utime(path, ns=(self._now, self._now), follow_symlinks=False)

    def _do_pipe(self, operation: Operation) -> None:
        kind = stat.S_IFIFO if operation.value % 2 else stat.S_IFSOCK
        path = self.full(self._place(operation))
        os.mknod(path, kind | 0o640)
        os.utime(path, ns=(self._now, self._now))

    def _do_link(self, operation: Operation) -> None:
        source, target = self._pick(operation.which, stat.S_ISREG), self.full(self._place(operation))
        if os.path.lexists(target):
            raise OSError(errno.EEXIST, "exists")
        self._keep_open(os.lstat(self.full(source)).st_mode)
        self._part(source)
        os.link(self.full(source), target)

    def _do_unlink(self, operation: Operation) -> None:
        os.unlink(self.full(self._pick(operation.which, _is_no_directory)))

    def _do_rmdir(self, operation: Operation) -> None:
        os.rmdir(self.full(self._pick(operation.which, stat.S_ISDIR)))

    def _do_rmtree(self, operation: Operation) -> None:
        _remove_tree(self.full(self._pick(operation.which, stat.S_ISDIR)))

    def _do_rename(self, operation: Operation) -> None:
        source, target = self._pick(operation.which, _is_anything), self._place(operation)
        self._check_rename(source, target)
        if stat.S_ISREG(os.lstat(self.full(source)).st_mode):
            self._part(source)
        os.rename(self.full(source), self.full(target))

    def _check_rename(self, source: str, target: str) -> None:
        """Refuse first what any file system refuses, because a refused change may part links or not."""
        if f"{target}/".startswith(f"{source}/"):
            raise OSError(errno.EINVAL, "into itself")
        if os.path.lexists(self.full(target)):
            is_directory = [stat.S_ISDIR(os.lstat(self.full(path)).st_mode) for path in (source, target)]
            if is_directory[0] != is_directory[1]:
                raise OSError(errno.EISDIR, "of another kind")
            if self._told == errno.ESTALE and self._identity(source) == self._identity(target):
                raise OSError(errno.ESTALE, "as in the box")

    def _do_move(self, operation: Operation) -> int:
        """As ``mv`` does, to a place that is free."""
        source, target = self._pick(operation.which, _is_anything), self._place(operation)
        if os.path.lexists(self.full(target)):
            raise OSError(errno.EEXIST, "exists")
        try:
            if self._told == COPIED:
                raise OSError(errno.EXDEV, "as in the box")
            return self._do_rename(operation) or 0
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        _copy_tree(self.full(source), self.full(target))
        _remove_tree(self.full(source))
        return COPIED

    def _do_directory_to_file(self, operation: Operation) -> None:
        path = self._pick(operation.which, stat.S_ISDIR)
        _remove_tree(self.full(path))
        self._write(path, os.O_CREAT | os.O_EXCL, _content(operation.value))

    def _do_file_to_directory(self, operation: Operation) -> None:
        path = self._pick(operation.which, _is_no_directory)
        os.unlink(self.full(path))
        os.mkdir(self.full(path))
        self._write(f"{path}/{operation.name}", os.O_CREAT, _content(operation.value))

    def _do_again(self, operation: Operation) -> None:
        """Remove a directory and make it anew: what it held must not come back."""
        path = self.full(self._pick(operation.which, stat.S_ISDIR))
        _remove_tree(path)
        os.mkdir(path)

    # -- attributes -------------------------------------------------------------------------------------------------

    def _do_chmod(self, operation: Operation) -> None:
        path = self._pick(operation.which, _is_no_link)
        modes, info = _DIRECTORY_MODES if os.path.isdir(self.full(path)) else _FILE_MODES, os.lstat(self.full(path))
        mode = modes[operation.value % len(modes)]
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            self._keep_open(mode)
        self._part(path)
        os.chmod(self.full(path), mode)

    def _keep_open(self, mode: int) -> None:
        """A file that has several links, or is to have them, stays open to its owner; the box decides."""
        if self._is_box and mode & _OPEN != _OPEN:
            raise OSError(errno.EMLINK, "it has several links")

    def _do_utime(self, operation: Operation) -> None:
        path = self._pick(operation.which, _is_anything)
        if stat.S_ISREG(os.lstat(self.full(path)).st_mode):
            self._part(path)
        os.utime(self.full(path), ns=(self._now, self._now - operation.value), follow_symlinks=False)

    def _do_attribute(self, operation: Operation) -> None:
        path = self._pick(operation.which, stat.S_ISREG, stat.S_ISDIR)
        if not os.lstat(self.full(path)).st_mode & stat.S_IWUSR:
            raise OSError(errno.EACCES, "not writable")
        self._part(path)
        os.setxattr(self.full(path), "user.test", str(operation.value).encode())

    # -- description ------------------------------------------------------------------------------------------------

    def describe(self) -> list[list]:
        """One entry a path: kind, mode, owner, time, content or target, extended attributes."""
        return [self._entry(path, info) for path, info in self.walk()]

    def _entry(self, path: str, info: os.stat_result) -> list:
        full, content = self.full(path), None
        if stat.S_ISLNK(info.st_mode):
            content = os.readlink(full)
        elif stat.S_ISREG(info.st_mode) and info.st_mode & stat.S_IRUSR:
            with open(full, "rb") as file:
                data = file.read()
            content = [len(data), zlib.crc32(data), data[:60].hex()]
        attributes = {}
        if stat.S_ISDIR(info.st_mode) or (stat.S_ISREG(info.st_mode) and info.st_mode & stat.S_IRUSR):
            attributes = {name: os.getxattr(full, name).hex() for name in sorted(os.listxattr(full))}
        kind = stat.S_IFMT(info.st_mode)
        return [
            path,
            kind,
            stat.S_IMODE(info.st_mode),
            [info.st_uid, info.st_gid],
            info.st_mtime_ns,
            content,
            attributes,
        ]

    def links(self) -> list[list[str]]:
        """The paths that are links to one file, where there are several."""
        groups: dict[tuple[int, int], list[str]] = {}
        for path, info in self.walk():
            if stat.S_ISREG(info.st_mode):
                groups.setdefault((info.st_dev, info.st_ino), []).append(path)
        return sorted(group for group in groups.values() if len(group) > 1)

    def freeze(self) -> None:
        """From here on, everything that is there lies in a frozen layer."""
        files = [info for _path, info in self.walk() if stat.S_ISREG(info.st_mode) and info.st_nlink > 1]
        self.frozen = {(info.st_dev, info.st_ino) for info in files}


def _is_anything(_mode: int) -> bool:
    return True


def _is_no_directory(mode: int) -> bool:
    return not stat.S_ISDIR(mode)


def _is_no_link(mode: int) -> bool:
    return not stat.S_ISLNK(mode)


def _content(value: int) -> bytes:
    size = 70_000 if value % 11 == 0 else value % 60
    return (f"{value}\n".encode() * (size // 2 + 1))[:size]


def _copy_tree(source: str, target: str) -> None:
    """As ``cp -a``, but for links between files; contents are read with the owner's power alone."""
    info = os.lstat(source)
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISDIR(info.st_mode):
        os.mkdir(target)
        for name in sorted(os.listdir(source)):
            _copy_tree(f"{source}/{name}", f"{target}/{name}")
    elif stat.S_ISLNK(info.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(info.st_mode):
        os.chmod(source, mode | stat.S_IRUSR)
        with open(source, "rb") as old, open(target, "wb") as new:
            new.write(old.read())
        os.chmod(source, mode)
    else:
        os.mknod(target, info.st_mode)
    if not stat.S_ISLNK(info.st_mode):
        for name in os.listxattr(source):
            os.setxattr(target, name, os.getxattr(source, name))
        os.chmod(target, mode)
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns), follow_symlinks=False)


def _remove_tree(path: str) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        for name in os.listdir(path):
            _remove_tree(f"{path}/{name}")
        os.rmdir(path)
    else:
        os.unlink(path)


def main() -> None:
    os.umask(0o022)
    root, operations, begin = marshal.load(sys.stdin.buffer)
    os.makedirs(root, exist_ok=True)
    tree = Tree(root)
    before = tree.describe(), tree.links()
    results = tree.apply([Operation(*operation) for operation in operations], begin)
    marshal.dump((*before, results, tree.describe()), sys.stdout.buffer, FORMAT)


if __name__ == "__main__":
    main()
