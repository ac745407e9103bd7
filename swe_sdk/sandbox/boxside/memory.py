"""How much memory the programs of a box hold, for boxes whose memory no control group limits.

What no process maps (files without a name, data in pipes and sockets) is not seen.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Collection
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SHARERS = 8
"""In how many processes, those that share the most, it is found out what of that is memory and not programs."""


class Usage(NamedTuple):
    """Memory in use, in bytes, and the process that holds the most."""

    total: int
    largest: int


def usage(pids: Collection[int]) -> Usage:
    """What ``pids``, at least one, hold together: private memory, and shared memory once however many share it."""
    held = {pid: _private_and_shared(pid) for pid in pids}
    sharers = heapq.nlargest(_SHARERS, held, key=lambda pid: held[pid][1])
    mapped = {pid: _shared_memory(pid) for pid in sharers}
    private = sum(private for private, _shared in held.values())
    shared = max(_files_bytes() + _segments_bytes(), *mapped.values())  # each of them may be a part of the others
    return Usage(private + shared, max(held, key=lambda pid: held[pid][0] + mapped.get(pid, 0)))


def _private_and_shared(pid: int) -> tuple[int, int]:
    """The latter includes programs and libraries."""
    fields = _read(f"/proc/{pid}/statm").split()
    if not fields:
        return 0, 0
    resident, shared = int(fields[1]), int(fields[2])
    return (resident - shared) * _PAGE, shared * _PAGE


def _shared_memory(pid: int) -> int:
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"RssShmem:"):
            return int(line.split()[1]) << 10
    return 0


def _files_bytes() -> int:
    """What the files in /dev/shm hold, whoever wrote them."""
    info = os.statvfs("/dev/shm")
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def _segments_bytes() -> int:
    """What System V segments hold, which outlive those who made them."""
    header, *lines = _read("/proc/sysvipc/shm").splitlines() or [b"rss"]
    column = header.split().index(b"rss")
    return sum(int(line.split()[column]) for line in lines)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
