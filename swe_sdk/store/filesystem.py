"""What kind of file system a path is on, and what that means for a run."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from swe_sdk.errors import InputError
from swe_sdk.model.record import Record
from swe_sdk.paths import index_dir

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|afs|ceph|lustre|gpfs|beegfs|pvfs2|orangefs|ocfs2|gfs2|glusterfs|9p|virtiofs|wekafs|panfs"
    r"|fuse\.(sshfs|glusterfs|ceph.*|s3fs|gcsfuse|rclone|juicefs|moosefs|mfs.*|nfs.*|beegfs.*|lizardfs|goofys|blobfuse.*)"
)
_NETWORK_PROMISE = (
    "each writer has a journal of its own, so nothing is lost or mixed; other machines see new events after some "
    "seconds (their attribute cache), and durable means: on the server, as far as it syncs"
)
_LOCAL_PROMISE = "events are seen at once; durable events are on the disk when they are reported"


class FileSystem(Record):
    """``type`` as the kernel names it."""

    type: str
    is_network: bool

    @property
    def promise(self) -> str:
        """What a run on it can count on."""
        return _NETWORK_PROMISE if self.is_network else _LOCAL_PROMISE


def file_system(path: Path, mounts: str | None = None) -> FileSystem:
    """That of a path, or of its nearest parent that exists, by the kernel's list of mounts (proc(5), mountinfo)."""
    text = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape") if mounts is None else mounts
    real = Path(os.path.realpath(path))
    found = [
        (len(point.parts), number, kind) for number, (point, kind) in enumerate(_mounts(text)) if _is_in(real, point)
    ]
    kind = max(found)[2] if found else "unknown"
    return FileSystem(type=kind, is_network=_NETWORK.fullmatch(kind) is not None)


def local_index_folder() -> Path:
    """Where indexes are kept: :func:`swe_sdk.paths.index_dir`, or a temporary folder where they cannot be there.

    SQLite needs locks and shared memory that network file systems do not have. A home that cannot be written, as in
    many containers, is no reason to see nothing; a folder that somebody has named is.
    """
    folder = index_dir()
    if file_system(folder).is_network or not (_is_named_by_user() or _can_be_written(folder)):
        folder = Path(tempfile.gettempdir()) / f"swe_sdk-index-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        remedy = "set SWE_SDK_INDEX to a folder on a local disk that can be written"
        raise InputError(f"cannot make the folder of indexes {folder}: {error.strerror}", remedy=remedy) from error
    if folder.stat().st_uid != os.getuid():
        raise InputError(f"{folder} belongs to another user", remedy="set SWE_SDK_INDEX to a folder of yours")
    return folder


def _is_named_by_user() -> bool:
    return bool(os.environ.get("SWE_SDK_INDEX"))


def _can_be_written(folder: Path) -> bool:
    """Whether files can be made there, or the folder itself where it is missing."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


def _mounts(text: str) -> list[tuple[Path, str]]:
    lines = [line.split(" ") for line in text.splitlines()]
    return [(Path(_unescape(fields[4])), fields[fields.index("-") + 1]) for fields in lines if "-" in fields]


def _unescape(name: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name)


def _is_in(path: Path, point: Path) -> bool:
    return path.is_relative_to(point)
