"""Processor time of this process and of everything that it starts, wherever in the process tree it ends up."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from benchmarks.processes import cpu_s, descendants

_CPUACCT = Path("/sys/fs/cgroup/cpuacct")
_CONTROLLERS = Path("/sys/fs/cgroup")


class Meter(Protocol):
    """Counts processor time."""

    group: str | None
    """Control group that counts everything in it, or None: then what daemons do for us is not counted."""

    def seconds(self) -> float:
        """Of all processors, since some moment in the past."""


class GroupMeter:
    """A control group with this process in it. Exact, and daemons that we start are in it too."""

    def __init__(self, group: str) -> None:
        self.group: str | None = group
        self._usage = _CPUACCT / group / "cpuacct.usage"

    def seconds(self) -> float:
        return int(self._usage.read_text()) / 1e9


class TreeMeter:
    """The times of our own process tree, to the hundredth of a second for what still lives."""

    group: str | None = None

    def seconds(self) -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + cpu_s(descendants())


@contextmanager
def open_meter() -> Iterator[Meter]:
    """The best meter that this user may have. Call it before anything is started."""
    group = f"swe_sdk-benchmarks-{os.getpid()}"
    before = _own_group()
    try:
        (_CPUACCT / group).mkdir()
        (_CPUACCT / group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        yield TreeMeter()
        return
    try:
        yield GroupMeter(group)
    finally:
        (_CPUACCT / before / "cgroup.procs").write_text(str(os.getpid()))
        _remove(group)


def _own_group() -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if "cpuacct" in controllers.split(","):
            return path.lstrip("/")
    return ""


def _remove(group: str) -> None:
    """Delete the group from all controllers: a container daemon has made groups below it in each of them."""
    for controller in _CONTROLLERS.iterdir():
        for path in sorted((controller / group).rglob("*/"), reverse=True):
            _remove_one(path)
        _remove_one(controller / group)


def _remove_one(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        pass  # not made here, or somebody is still in it: an empty group costs nothing
