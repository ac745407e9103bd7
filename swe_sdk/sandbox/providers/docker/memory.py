"""What the kernel tells of a container's memory: whether it has killed something in it, and on whose account."""

from __future__ import annotations

from pathlib import Path

from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup

_ROOT = Path("/sys/fs/cgroup")


def memory_group(pid: int, *, root: Path = _ROOT, proc: Path = Path("/proc")) -> BoxCgroup | None:
    """The control group that counts the memory of process ``pid`` of this machine; None where it cannot be seen."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    found = _places(lines, root)
    return next((group for path, group in found if path.is_dir()), None)


def _places(lines: list[str], root: Path) -> list[tuple[Path, BoxCgroup]]:
    """Of version 1 first: where both are there, the controller of memory is bound to that."""
    places: list[tuple[Path, BoxCgroup]] = []
    for line in lines:
        _number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            directory = root / "memory" / path.lstrip("/")
            places.insert(0, (directory, BoxCgroup({"memory": directory}, version=1)))
        elif not controllers and (root / "cgroup.controllers").exists():
            directory = root / path.lstrip("/")
            places.append((directory, BoxCgroup({"memory": directory}, version=2)))
    return places
