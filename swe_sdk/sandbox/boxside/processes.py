"""What lives in the box, and which command each process belongs to. Reads /proc; keeps no state."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

COOKIE = "SWE_SDK_EXEC"
"""Environment variable that carries the id of the command a process was started by."""

_COMMAND_LINE_BYTES = 4096


@dataclass(frozen=True)
class ProcessInfo:
    """One line of /proc/PID/stat."""

    pid: int
    ppid: int
    group: int
    session: int
    state: str
    command: str

    @property
    def is_dead(self) -> bool:
        """Whether it only waits to be collected."""
        return self.state in "ZX"


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
    return ProcessInfo(pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0].decode(), name)


def command_line(pid: int) -> str:
    """The arguments joined by spaces, cut where they are very long, or "" if it is gone."""
    line = _read(f"/proc/{pid}/cmdline")[:_COMMAND_LINE_BYTES]
    return line.rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def owners(processes: Mapping[int, ProcessInfo], mains: Mapping[int, str], known: Collection[str]) -> dict[int, str]:
    """Which command each process belongs to, by command id; processes of unknown origin are left out.

    ``mains`` maps the pid of each command's first process to the command, ``known`` are all valid ids. A process
    belongs to a command by its session or group, by its cookie, or by its parent.
    """
    cookies: dict[int, str | None] = {}

    def direct(info: ProcessInfo) -> str | None:
        owner = mains.get(info.pid) or mains.get(info.session) or mains.get(info.group)
        return owner or cookies.setdefault(info.pid, _cookie(info.pid, known))

    found: dict[int, str] = {}
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


def _cookie(pid: int, known: Collection[str]) -> str | None:
    prefix = f"{COOKIE}=".encode()
    for entry in _read(f"/proc/{pid}/environ").split(b"\0"):
        if entry.startswith(prefix):
            value = entry[len(prefix) :].decode("ascii", "replace")
            return value if value in known else None
    return None
