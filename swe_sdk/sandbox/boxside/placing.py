"""Finds out where a path leads within layers that are not mounted yet."""

from __future__ import annotations

import errno
import os
import stat

_MAX_LINKS = 40


def resolve(layers: list[str], path: str) -> str:
    """``path`` without any symbolic link in it, as whoever sees ``layers`` (from the top down) as the root finds it.

    What is there is what the topmost layer says that has the name at all; what is not there is taken as it is written.
    Raises ``OSError`` where links lead round in circles, or the layers cannot be looked into.
    """
    todo, found, links = path.split("/")[::-1], list[str](), 0
    while todo:
        name = todo.pop()
        if name == "..":
            found = found[:-1]
        elif name not in ("", "."):
            target = _link(layers, "/".join((*found, name)))
            if target is None:
                found.append(name)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, f"{path}: {os.strerror(errno.ELOOP)}")
            found = [] if target.startswith("/") else found
            todo += target.split("/")[::-1]
    return "/" + "/".join(found)


def _link(layers: list[str], path: str) -> str | None:
    """Where the link at ``path`` (relative, its directories no links) leads; None if it is none."""
    for layer in layers:
        place = f"{layer}/{path}"
        try:
            info = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        return os.readlink(place) if stat.S_ISLNK(info.st_mode) else None
    return None
