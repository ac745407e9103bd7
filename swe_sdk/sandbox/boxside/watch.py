"""Frees supervisors that a program of their box has blocked.

A supervisor that starts a program waits until its child has become the program: by vfork, or for a word on a pipe.
SIGSTOP, which nothing can block, stops the child before that, if a program of the box sends it at the right moment; the
supervisor would then wait for ever, and its box count as lost. Only somebody outside of the box can help: the zygote,
which looks.
"""

from __future__ import annotations

import os
import signal
import time

LOOK_S = 0.5
_HAS_NOT_BECOME_A_PROGRAM = 0x40  # PF_FORKNOEXEC


class Watch:
    """The boxes of a zygote."""

    def __init__(self) -> None:
        self._next_look = 0.0
        self._supervisors: dict[int, int] = {}
        """By the pid that the zygote will wait for: the supervisor's own, or that of what has started it."""
        self._asleep: dict[int, int] = {}
        """By the pid of a supervisor: in how many looks in a row it could not have answered."""

    def add(self, pid: int, waited_for: int | None = None) -> None:
        """Watch a supervisor from now on; ``waited_for`` ends with it, and is the caller's child."""
        self._asleep[pid] = 0
        self._supervisors[waited_for or pid] = pid

    def remove(self, waited_for: int) -> None:
        """A child of the caller has ended."""
        self._asleep.pop(self._supervisors.pop(waited_for, waited_for), None)

    @property
    def patience_ms(self) -> float | None:
        """How long to wait for something else before the next look; None where there is nothing to look at."""
        return LOOK_S * 1000 if self._asleep else None

    def look(self) -> None:
        """See how all of them are, if it is time. First the child may go on; if it is stopped again, it is killed."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_S
        for pid, before in self._asleep.items():
            waits = _waits_for_child(pid)
            self._asleep[pid] = before + 1 if waits else 0
            if before >= 1 and waits:
                _signal_stopped_children(pid, signal.SIGCONT if before == 1 else signal.SIGKILL)


def _waits_for_child(supervisor: int) -> bool:
    """Whether it is within vfork, or reads from a pipe; it does nothing else there that takes any time."""
    state, _parent, _flags = _stat(supervisor)
    return state == "D" or (state == "S" and b"pipe_read" in _read(f"/proc/{supervisor}/wchan"))


def _signal_stopped_children(supervisor: int, number: int) -> None:
    for child in children(supervisor):
        state, parent, flags = _stat(child)
        is_no_program = flags & _HAS_NOT_BECOME_A_PROGRAM and _command_line(child) == _command_line(supervisor)
        if state == "T" and parent == supervisor and is_no_program:
            os.kill(child, number)


def children(pid: int) -> list[int]:
    """The processes whose parent it is, those that have ended and were not waited for among them."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:  # it has gone, or the kernel was built without this list
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _stat(int(name))[1] == pid]


def _stat(pid: int) -> tuple[str, int, int]:
    """State, parent and flags; ("X", 0, 0) if it is gone."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (fields[0].decode(), int(fields[1]), int(fields[6])) if fields else ("X", 0, 0)


def _command_line(pid: int) -> bytes:
    return _read(f"/proc/{pid}/cmdline")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
