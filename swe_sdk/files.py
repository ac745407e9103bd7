"""Writing files so that a reader sees the old content or the new, never half of it; reading a secret from one."""

from __future__ import annotations

import os
from pathlib import Path

from swe_sdk.errors import InputError
from swe_sdk.model.ids import new_id


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Write ``data`` to ``path``: into a temporary file beside it, synced, then renamed over it.

    Without ``sync`` it is ten times as fast, and a crash of the whole machine may leave an empty file.
    """
    temporary = path.with_name(f".{path.name}.{new_id('tmp')}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_token(path: Path) -> str:
    """The token in a file, without the space around it. ``InputError`` where there is none to be read."""
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the token file {path} cannot be read: {error}") from None
    if not token:
        raise InputError(f"the token file {path} is empty", remedy="write the token into it")
    return token
