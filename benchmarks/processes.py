"""The processes below this one, from /proc: their processor time and their memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from benchmarks.rows import Unavailable

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def descendants() -> set[int]:
    """All living processes that this one has started, directly or not."""
    children: dict[int, list[int]] = {}
    for pid, fields in _stats():
        children.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds of processor time that these have used, and the ended children that they have waited for."""
    wanted = set(pids)
    ticks = sum(sum(map(int, fields[11:15])) for pid, fields in _stats() if pid in wanted)
    return ticks / _TICKS_PER_S


def pss_bytes(pids: Iterable[int]) -> int:
    """Their memory; a page that several processes share counts in parts. ``Unavailable`` where we may not look."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError as error:
            raise Unavailable(f"the memory of a box's first process is for root to read: {error.strerror}") from None
        total += sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def _stats() -> Iterable[tuple[int, list[str]]]:
    """Each process and what follows its name in /proc/PID/stat: state, parent, ..."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue  # it has just ended
            yield int(entry.name), text.rpartition(")")[2].split()
