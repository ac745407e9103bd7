"""What lives in the box, and which command each process belongs to. Reads /proc; keeps no state."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

RLIMIT_MARK = 10
"""RLIMIT_LOCKS, which has had no effect since Linux 2.4.25.

Its hard limit tells whose a process is: each command has its own, less than all before. A process inherits it, shows it
to everybody, and can only lower it, so nothing passes for a part of an older command, however it hides its origin.
"""

_COMMAND_LINE_BYTES, _COMMAND_LINES_BYTES = 4096, 4 << 20
"""Of one process, and of all together: each may become six bytes in a frame."""
_STATUS_BYTES = 16384


class ProcessInfo(NamedTuple):
    """One line of /proc/PID/stat."""

    pid: int
    ppid: int
    group: int
    session: int
    state: str
    threads: int
    command: str

    @property
    def is_dead(self) -> bool:
        """Whether it only waits to be collected. One whose first thread alone has ended looks dead, and goes on."""
        return self.state in "ZX" and self.threads <= 1


def living() -> dict[int, ProcessInfo]:
    """Every process of the box but its supervisor and zombies, by pid."""
    return {info.pid: info for info in _scan() if not info.is_dead}


def _scan() -> Iterator[ProcessInfo]:
    me = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != me:
            info = _info(int(name))
            if info is not None:
                yield info


def _info(pid: int) -> ProcessInfo | None:
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return None
    start, _, rest = text.rpartition(b")")  # the name in parentheses may itself hold anything
    fields = rest.split()
    name = start.partition(b"(")[2].decode("utf-8", "replace")
    return ProcessInfo(pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode(), int(fields[17]), name)


def all_stopped(processes: Mapping[int, ProcessInfo]) -> bool:
    """Whether none of ``processes`` can run on after a SIGSTOP.

    A parent that waits for its child to become a program (vfork) cannot stop before that, nor run if the child has
    stopped: it stays in state D.
    """
    waited_for = {info.ppid for info in processes.values() if info.state in "Tt"}
    return all(info.state in "TtZ" or (info.state == "D" and pid in waited_for) for pid, info in processes.items())


def command_line(pid: int, among: int) -> str:
    """The arguments joined by spaces, cut where they or those of ``among`` processes are long; "" if it is gone."""
    line = _read(f"/proc/{pid}/cmdline", min(_COMMAND_LINE_BYTES, _COMMAND_LINES_BYTES // among))
    return line.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")


def _read(path: str, size: int = _STATUS_BYTES) -> bytes:
    """The start of a file: arguments may be megabytes long, and as slow to read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(size) or b""
    except OSError:
        return b""


def owners(processes: Mapping[int, ProcessInfo], mains: Mapping[int, int], known: Collection[int]) -> dict[int, int]:
    """Which command each process belongs to, by mark; processes of unknown origin are left out.

    ``mains`` maps the pid of each command's first process to its mark, ``known`` are all valid marks. A process belongs
    to a command by its session or group, by its mark, or by its parent.
    """
    marks: dict[int, int | None] = {}

    def direct(info: ProcessInfo) -> int | None:
        owner = mains.get(info.pid) or mains.get(info.session) or mains.get(info.group)
        return owner or marks.setdefault(info.pid, _mark(info.pid, known))

    found: dict[int, int] = {}
    for pid in processes:
        walked: int = pid
        seen: set[int] = set()
        while walked in processes and walked not in seen:
            seen.add(walked)
            owner = direct(processes[walked])
            if owner is not None:
                found[pid] = owner
                break
            walked = processes[walked].ppid
    return found


def _mark(pid: int, known: Collection[int]) -> int | None:
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(b"Max file locks"):
            hard = line.split()[4]
            return int(hard) if hard.isdigit() and int(hard) in known else None
    return None
