"""What a .sif file says of itself, as far as boxes must know it.

Formats: github.com/apptainer/sif (``pkg/sif``: header and descriptors), and the kernel's Documentation/filesystems/
squashfs.rst.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC_AT, _MAGIC = 32, b"SIF_MAGIC"
_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
"""Launch script, magic, version, architecture, id, times of creation and change, free and all descriptors, offset and
size of the descriptors, offset and size of the data."""
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
"""Type, whether it is used, its id, its group's, its link's, offset, size, padded size, times, owner, name, more."""
_PARTITION = 0x4004
_PRIMARY = 2
_SQUASHFS = b"hsqs"
_SUPERBLOCK = struct.Struct("<4s22xH20xQ")
"""Magic, number of ids, and where the list of the blocks that hold them is."""
_ONE_ROOT = struct.pack("<HI", 0x8000 | 4, 0)
"""A block of ids with the one id 0: four bytes, not compressed."""


def belongs_to_root(path: Path) -> bool:
    """Whether all files in an image are root's, for user and group; False where that cannot be told."""
    try:
        with path.open("rb") as file:
            start = _offset(file)
            file.seek(start)
            magic, count, ids = _SUPERBLOCK.unpack(file.read(_SUPERBLOCK.size))
            if magic != _SQUASHFS or count != 1:
                return False
            file.seek(start + ids)
            (block,) = struct.unpack("<Q", file.read(8))
            file.seek(start + block)
            return file.read(len(_ONE_ROOT)) == _ONE_ROOT
    except (OSError, struct.error):
        return False


def file_system_offset(path: Path) -> int:
    """Where the root file system begins in a file: at the start, unless it is a .sif file."""
    with path.open("rb") as file:
        return _offset(file)


def _offset(file: BinaryIO) -> int:
    header = file.read(_HEADER.size)
    if not header[_MAGIC_AT:].startswith(_MAGIC):
        return 0
    _script, _magic, _version, _arch, _id, _created, _changed, _free, total, place, *_rest = _HEADER.unpack(header)
    for number in range(min(total, 1000)):
        file.seek(place + number * _DESCRIPTOR.size)
        kind, used, *numbers, _name, more = _DESCRIPTOR.unpack(file.read(_DESCRIPTOR.size))
        if used and kind == _PARTITION and struct.unpack_from("<i", more, 4)[0] == _PRIMARY:
            return int(numbers[3])
    return 0
