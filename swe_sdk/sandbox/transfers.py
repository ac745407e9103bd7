"""Files between this machine and a box whose supervisor copies them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from anyio import to_thread

from swe_sdk.errors import NoSpace, TransferFailed
from swe_sdk.model.ids import new_id

_READ_LIMIT_BYTES = 1 << 30
_FIRST_ROOM_BYTES = 1 << 16
"""What is read without asking first how much it is."""


class Transfer(Protocol):
    """Has the supervisor copy between a file of the box and one of ours; returns its reply."""

    async def __call__(self, operation: str, path: str, file: BinaryIO, **options: Any) -> dict[str, Any]:
        """Raises ``TransferFailed``, ``NoSpace`` or a ``SandboxError``."""


async def read(transfer: Transfer, path: str) -> bytes:
    """The content of a regular file."""
    with _memory_file() as file:
        size = await _copy_out(transfer, path, file, room=_FIRST_ROOM_BYTES, make_room=partial(_allocate, file))
        file.seek(0)
        return await to_thread.run_sync(file.read, size)


async def write(transfer: Transfer, path: str, data: bytes, mode: int) -> None:
    """Create or replace a file."""
    with _memory_file() as file:
        await to_thread.run_sync(_fill, file, data)
        await transfer("write", path, file, mode=mode)


async def upload(transfer: Transfer, local: Path, remote: str) -> None:
    """Copy a file in."""
    with _DiskErrors(str(local)), Path(local).open("rb") as source:
        await transfer("write", remote, source, mode=os.fstat(source.fileno()).st_mode & 0o777)


async def download(transfer: Transfer, remote: str, local: Path) -> None:
    """Copy a file out."""
    half_made = Path(local).with_name(f".{new_id('part')}")
    with _DiskErrors(str(local)):
        try:
            with half_made.open("wb") as target:
                await _copy_out(transfer, remote, target, room=0, make_room=partial(_require_space, target))
            half_made.replace(local)
        finally:
            half_made.unlink(missing_ok=True)


async def _copy_out(
    transfer: Transfer, path: str, file: BinaryIO, *, room: int, make_room: Callable[[int], None]
) -> int:
    """Fill ``file``, which has ``room`` bytes of room at first, and return how many it got.

    ``make_room`` makes more, or raises ``OSError``. How large a file of the box claims to be is the choice of its
    programs, and costs them nothing.
    """
    reply = await transfer("read", path, file, room=room, cut=False)
    if reply["ev"] == "larger":
        size = int(reply["size"])
        try:
            make_room(size)
        except OSError as error:
            raise TransferFailed(f"cannot read {path!r} of the sandbox, {size:,} bytes: {error.strerror}") from None
        reply = await transfer("read", path, file, room=size, cut=True)
    return int(reply["copied"])


class _DiskErrors:
    """Turns errors of the local file system into ours."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise NoSpace(f"no space left while copying {self._path}") from error
            raise TransferFailed(f"cannot copy {self._path}: {error}") from error


def _memory_file() -> BinaryIO:
    return os.fdopen(os.memfd_create("transfer", os.MFD_CLOEXEC), "w+b")


def _allocate(file: BinaryIO, size: int) -> None:
    """Take the memory here: what the supervisor took would count as its box's, and might be its end."""
    if size > _READ_LIMIT_BYTES:
        raise OSError(errno.EFBIG, f"more than {_READ_LIMIT_BYTES:,} are downloaded, not read")
    os.posix_fallocate(file.fileno(), 0, size)


def _require_space(file: BinaryIO, size: int) -> None:
    disk = os.fstatvfs(file.fileno())
    if size > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.EFBIG, "more than the disk has left")


def _fill(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    file.seek(0)
