"""The files of the stand-in for envd: what ``filesystem.Filesystem`` and ``/files`` answer."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Missing(Exception):
    """Told as not found."""


class Exists(Exception):
    """Told as already there."""


def account(user: str) -> pwd.struct_passwd:
    """``KeyError`` for an unknown one. Root is known without a passwd file; whether envd's is, was never seen."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        if user != "root":
            raise
        return pwd.struct_passwd(("root", "x", 0, 0, "", "/root", "/bin/sh"))


def resolve(path: str, user: str) -> Path:
    """Relative ones are the user's."""
    return Path(account(user).pw_dir) / path


def entry(path: Path) -> dict[str, Any]:
    """What ``EntryInfo`` tells of a file."""
    try:
        found = path.lstat()
    except OSError as error:
        raise Missing(f"path '{path}' does not exist") from error
    kind = "FILE_TYPE_DIRECTORY" if path.is_dir() else "FILE_TYPE_FILE"
    link = {"symlinkTarget": os.readlink(path)} if path.is_symlink() else {}
    return {
        "name": path.name,
        "type": kind,
        "path": str(path),
        "size": str(found.st_size),
        "mode": stat.S_IMODE(found.st_mode),
        "permissions": stat.filemode(found.st_mode),
        "owner": _user(found.st_uid),
        "group": _user(found.st_gid),
        "modifiedTime": datetime.fromtimestamp(found.st_mtime, UTC).isoformat().replace("+00:00", "Z"),
        **link,
    }


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def children(path: Path, depth: int) -> Iterator[dict[str, Any]]:
    """What is in a directory, ``depth`` levels deep."""
    if not path.is_dir():
        raise Missing(f"path '{path}' does not exist or is no directory")
    for child in sorted(path.iterdir()):
        yield entry(child)
        if depth > 1 and child.is_dir() and not child.is_symlink():
            yield from children(child, depth - 1)


def make_directory(path: Path, user: str) -> dict[str, Any]:
    """With those above it."""
    if path.is_dir():
        raise Exists(f"directory already exists: {path}")
    _make_parents(path / "_", user)
    return entry(path)


def move(source: Path, target: Path, user: str) -> dict[str, Any]:
    """Rename."""
    entry(source)
    _make_parents(target, user)
    source.rename(target)
    return entry(target)


def remove(path: Path) -> None:
    """A file or a whole directory; none is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def create(path: Path, user: str) -> Any:
    """A file to be written, owned by ``user``."""
    _make_parents(path, user)
    file = path.open("wb")
    os.fchown(file.fileno(), *_ids(user))
    return file


def _make_parents(path: Path, user: str) -> None:
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir()
        os.chown(parent, *_ids(user))


def _ids(user: str) -> tuple[int, int]:
    found = account(user)
    return found.pw_uid, found.pw_gid
