"""How much memory the programs of a box hold, for boxes whose memory no control group limits."""

from __future__ import annotations

import os
from collections.abc import Iterable

_PAGE = os.sysconf("SC_PAGE_SIZE")


def held_bytes(pids: Iterable[int]) -> dict[int, int]:
    """Private memory in use, by process. Shared pages of programs and libraries are not counted."""
    return {pid: _private(pid) for pid in pids}


def shared_bytes() -> int:
    """What the files in /dev/shm hold, whoever wrote them."""
    info = os.statvfs("/dev/shm")
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def _private(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _size, resident, shared, *_rest = file.read().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE
