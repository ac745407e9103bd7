"""Files of indexes: what they are called, and when they are forgotten."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from swe_sdk.model.ids import safe_name
from swe_sdk.store.derive import DERIVE
from swe_sdk.store.schema import INDEX_VERSION, TABLES, index_statements

_UNUSED_S = 30 * 86400.0


def index_file(path: Path, folder: Path) -> Path:
    """The file in ``folder`` for the index of a directory; files that nobody has opened for a month are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / index_name(path)
    with suppress(FileNotFoundError):
        os.utime(file)
    if not file.exists():
        _forget_old(folder)
    return file


def index_name(path: Path) -> str:
    """Another one for each directory and each version of the tables."""
    tables = "".join((TABLES, DERIVE, *index_statements()))
    return f"{safe_name(path.name)[:40]}-{_digest(str(path.resolve()))}-v{INDEX_VERSION}-{_digest(tables)[:8]}.sqlite"


def _forget_old(folder: Path) -> None:
    """An index can be made anew at any time, and whoever has one open keeps it."""
    for file in folder.glob("*.sqlite"):
        with suppress(FileNotFoundError, PermissionError):
            if time.time() - file.stat().st_mtime > _UNUSED_S:
                for each in (file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))):
                    each.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
