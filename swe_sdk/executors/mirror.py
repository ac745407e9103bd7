"""Bringing home what a node wrote, where it does not share the driver's file system.

Journals and logs grow at their end, so of a file that is there already only what is new is asked for. A file that has
become shorter is another one, and is fetched anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path, PurePosixPath

from anyio import to_thread

from swe_sdk.errors import SandboxError

PIECE_BYTES = 4 << 20
Fetch = Callable[[str, int, int], Awaitable[bytes]]
"""``(path, offset, length)``: some bytes of a file of the node; fewer at its end."""


def listing(folder: Path, below: Sequence[str]) -> dict[str, int]:
    """Paths relative to a folder, and sizes, of the files in some parts of it; {} where there are none.

    Half-written files (their names begin with a dot until they are complete) are left out.
    """
    found = {}
    for path in (path for part in below for path in sorted((folder / part).rglob("*"))):
        try:
            if path.is_file() and not path.is_symlink() and not path.name.startswith("."):
                found[path.relative_to(folder).as_posix()] = path.stat().st_size
        except FileNotFoundError:  # renamed meanwhile; the next time it is there
            continue
    return found


def piece(path: Path, offset: int, length: int) -> bytes:
    """Some bytes of a file; none where it is gone."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError:
        return b""


async def bring(theirs: dict[str, int], into: Path, fetch: Fetch) -> None:
    """Make the files of ``theirs`` (relative path to size) equal below ``into``. Raises what ``fetch`` raises."""
    for name, size in theirs.items():
        target = into / _checked(name)
        have = await to_thread.run_sync(_size, target)
        if have is None or have > size:
            have = 0
            await to_thread.run_sync(_fresh, target)
        while have < size:
            data = await fetch(name, have, min(PIECE_BYTES, size - have))
            if not data:
                break
            await to_thread.run_sync(_append, target, data)
            have += len(data)


def _checked(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SandboxError(f"a node names a file outside of its folder: {name!r}")
    return path


def _size(target: Path) -> int | None:
    try:
        return target.stat().st_size
    except FileNotFoundError:
        return None


def _fresh(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"")


def _append(target: Path, data: bytes) -> None:
    with target.open("ab") as file:
        file.write(data)
