"""Control groups, where this process may make them: as root, or where a service manager has delegated some."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from swe_sdk.sandbox.contract import Limits

_ROOT = Path("/sys/fs/cgroup")
_PARENT = "swe_sdk"
_CPU_PERIOD_US = 100_000
_CHARGE_BYTES = 1 << 20
_V1_CONTROLLERS = ("memory", "pids", "cpu")


@dataclass(frozen=True)
class Cgroups:
    """Where groups can be made: one directory for each controller (version 1), or one for all (version 2)."""

    directories: dict[str, Path]
    version: int

    @classmethod
    def find(cls) -> Cgroups | None:
        """The controllers that this process can use, or None where it can use none."""
        if (_ROOT / "cgroup.controllers").exists():
            directory = _usable_v2(_ROOT / _PARENT)
            return None if directory is None else cls(directory, version=2)
        usable = {name: _ROOT / name / _PARENT for name in _V1_CONTROLLERS if _make(_ROOT / name / _PARENT)}
        return cls(usable, version=1) if usable else None

    def controls(self, controller: str) -> bool:
        """Whether limits of this controller are enforced."""
        return controller in self.directories

    def orphans(self) -> list[Path]:
        """The groups that processes which are gone have left."""
        groups = [path for parent in set(self.directories.values()) for path in parent.glob("*.box-*")]
        return [path for path in groups if not _is_alive(path.name.partition(".")[0])]

    def sweep(self) -> None:
        """Remove the groups that processes which are gone have left."""
        for path in self.orphans():
            _remove(path)

    def create(self, name: str, limits: Limits) -> BoxCgroup:
        """A group for one box, with its limits set. ``OSError`` where the kernel refuses."""
        full_name = f"{_owner()}.{name}"
        group = BoxCgroup({kind: parent / full_name for kind, parent in self.directories.items()}, self.version)
        for path in group.paths:
            path.mkdir()
        try:
            group.set_limits(limits)
        except OSError:
            group.remove()
            raise
        return group


class BoxCgroup:
    """The groups of one box."""

    def __init__(self, directories: dict[str, Path], version: int) -> None:
        self._directories = directories
        self._version = version
        self._kills = 0

    @property
    def paths(self) -> list[Path]:
        """Its directories, each once."""
        return list(dict.fromkeys(self._directories.values()))

    def set_limits(self, limits: Limits) -> None:
        """Write what the controllers at hand can keep."""
        v2 = self._version == 2
        if limits.memory_mib is not None:
            size = str(limits.memory_mib << 20)
            self._write("memory", "memory.max" if v2 else "memory.limit_in_bytes", size)
            # swap would let a box grow on; not every kernel accounts for it
            swap = ("memory.swap.max", "0") if v2 else ("memory.memsw.limit_in_bytes", size)
            self._write("memory", *swap, optional=True)
        if limits.pids is not None:
            self._write("pids", "pids.max", str(limits.pids + 1))  # and the supervisor
        if limits.cpus is not None:
            quota = int(limits.cpus * _CPU_PERIOD_US)
            self._write("cpu", *(("cpu.max", f"{quota} {_CPU_PERIOD_US}") if v2 else ("cpu.cfs_quota_us", str(quota))))

    def _write(self, controller: str, file: str, text: str, *, optional: bool = False) -> None:
        path = self._directories.get(controller, Path()) / file
        if controller in self._directories and (path.exists() or not optional):
            path.write_text(text)

    def add(self, pid: int) -> None:
        """Put a process in, and everything that it starts from now on."""
        for path in self.paths:
            (path / "cgroup.procs").write_text(str(pid))

    def has_killed(self) -> bool:
        """Whether the kernel has killed something here since the last call because memory ran out."""
        before = self._kills
        self._kills = self._counter("memory.events" if self._version == 2 else "memory.oom_control", "oom_kill ")
        return self._kills > before

    @property
    def was_full(self) -> bool:
        """Whether the group has ever been at its own limit."""
        if self._version == 2:
            return self._counter("memory.events", "max ") > 0
        highest, limit = (self._counter(f"memory.{name}_in_bytes") for name in ("max_usage", "limit"))
        return highest > limit - _CHARGE_BYTES  # memory is charged in batches, so the last few pages may be missing

    def _counter(self, file: str, name: str = "") -> int:
        """A number from a file of ``name number`` lines, or of the number alone."""
        try:
            lines = (self._directories["memory"] / file).read_text().splitlines()
        except (OSError, KeyError):
            return 0
        return next((int(line.split()[-1]) for line in lines if line.startswith(name)), 0)

    def remove(self) -> None:
        """Delete the groups."""
        for path in self.paths:
            _remove(path)


def _owner() -> str:
    """This process, told apart from a later one with the same number."""
    return f"{os.getpid()}-{_start_time(os.getpid())}"


def _is_alive(owner: str) -> bool:
    pid, _, started = owner.partition("-")
    return pid.isdigit() and _start_time(int(pid)) == started


def _start_time(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _remove(path: Path) -> None:
    """Delete a group whose last process has just gone, which the kernel may take a moment to notice."""
    for _attempt in range(100):
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.002)
        else:
            return


def _make(path: Path) -> bool:
    try:
        path.mkdir(exist_ok=True)
    except OSError:
        return False
    return os.access(path, os.W_OK)


def _usable_v2(parent: Path) -> dict[str, Path] | None:
    wanted = set(_V1_CONTROLLERS)
    try:
        offered = set((parent.parent / "cgroup.subtree_control").read_text().split())
        parent.mkdir(exist_ok=True)
        useful = sorted(wanted & offered)
        (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in useful))
    except OSError:
        return None
    return dict.fromkeys(useful, parent) if useful else None
