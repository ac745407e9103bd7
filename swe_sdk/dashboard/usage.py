"""What boxes use of this machine, as far as the kernel counts it: read from its control groups, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from glob import escape
from pathlib import Path

from swe_sdk.model.record import Record

_ROOT = Path("/sys/fs/cgroup")
_OURS = "swe_sdk"


class Usage(Record):
    """Of one box. None = the kernel does not count it."""

    memory_bytes: int | None = None
    processes: int | None = None
    cpu_s: float | None = None
    """Seconds of all processors together, since it was made."""


def usage_of(handles: Iterable[str], root: Path = _ROOT) -> dict[str, Usage]:
    """What each box uses, by its handle; those that have no control group of their own are left out."""
    found = {handle: _usage(root, handle) for handle in handles}
    return {handle: usage for handle, usage in found.items() if usage is not None}


def shared_usage(owner: str, root: Path = _ROOT) -> Usage | None:
    """What all local boxes of an owner use that have no group of their own; ``owner`` as its directory is called."""
    return _usage(root, f"box-{owner}")


def pid_of(owner: str, root: Path = _ROOT) -> int | None:
    """The process that is an owner of local boxes, by the group that it has made for them; None where there is none."""
    for base in (root / "memory", root / "pids", root):
        for path in _named(base / _OURS, f"box-{owner}"):
            pid = path.name.partition("-")[0]
            return int(pid) if pid.isdecimal() else None
    return None


def _usage(root: Path, handle: str) -> Usage | None:
    memory = _first(_number(path / name) for path in _groups(root, "memory", handle) for name in _MEMORY)
    processes = _first(_number(path / "pids.current") for path in _groups(root, "pids", handle))
    cpu_s = _first(_cpu(path) for path in _groups(root, "cpuacct", handle))
    if memory is None and processes is None and cpu_s is None:
        return None
    return Usage(memory_bytes=memory, processes=processes, cpu_s=cpu_s)


_MEMORY = ("memory.current", "memory.usage_in_bytes")


def _groups(root: Path, controller: str, handle: str) -> Iterator[Path]:
    """Where the group of a box may be: of this package, or of docker, in version 1 or 2."""
    name = handle.rpartition("/")[2]
    if not name or name.startswith("."):
        return
    for base in (root / controller, root):
        yield from _named(base / _OURS, name)
        yield base / "docker" / name
        yield base / "system.slice" / f"docker-{name}.scope"


def _named(folder: Path, name: str) -> Iterator[Path]:
    """Groups are called after the process that made them, and after what is in them."""
    yield from folder.glob(f"*.{escape(name)}")


def _first(values: Iterable[int | float | None]) -> int | float | None:
    return next((value for value in values if value is not None), None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _cpu(path: Path) -> float | None:
    nanoseconds = _number(path / "cpuacct.usage")
    if nanoseconds is not None:
        return nanoseconds / 1e9
    try:
        fields = dict(line.split() for line in (path / "cpu.stat").read_text().splitlines())
        return int(fields["usage_usec"]) / 1e6
    except (OSError, ValueError, KeyError):
        return None
