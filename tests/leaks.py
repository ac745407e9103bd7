"""Looks for what boxes may leave behind on this machine: directories, locks, processes, mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from glob import glob
from pathlib import Path

_MEMORY = Path("/dev/shm")


def memory_folder() -> Path | None:
    """/dev/shm, if it is a memory file system that we may write."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    is_tmpfs = any(fields[1] == str(_MEMORY) and fields[2] == "tmpfs" for fields in mounts)
    return _MEMORY if is_tmpfs and os.access(_MEMORY, os.W_OK | os.X_OK) else None


def traces_of(state: Path, *owners: str) -> dict[str, list[str]]:
    """What is left of boxes below a state directory; {} if nothing is. Call it when every provider on it is closed.

    ``owners`` are the ids of its providers' stores: a program in a box names its owner in its mounts, not the state.
    """
    found = {
        "boxes": [str(path.relative_to(state)) for path in (state / "boxes").glob("*/*")],
        "owners": [path.name for path in (state / "owners").glob("*")],
        "trash": [path.name for path in (state / "trash").glob("*")],
        "unused layers": unused_layers(state),
        "processes": [f"{pid}: {what}" for pid, what in processes_of(str(state), *owners)],
        "mounts": mounts_of(state),
        "control groups": [group for owner in owners for group in glob(f"/sys/fs/cgroup/**/*{owner}*", recursive=True)],
    }
    return {what: names for what, names in found.items() if names}


def unused_layers(state: Path) -> list[str]:
    """Layers that no snapshot, no image and no box names."""
    records = [
        path
        for pattern in ("snapshots/*.json", "images/*.json", "boxes/*/*/chain.json")
        for path in state.glob(pattern)
    ]
    named = "\n".join(record.read_text() for record in records)
    return [layer.name for layer in (state / "layers").glob("*") if layer.name not in named]


def processes_of(*needles: str) -> Iterator[tuple[int, str]]:
    """Processes of this machine that have one of ``needles`` in their arguments, open files or mounts."""
    wanted = [os.fsencode(needle) for needle in needles]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        seen = _seen_by(entry)
        if any(needle in seen for needle in wanted):
            yield int(entry.name), _read(entry / "cmdline").replace(b"\0", b" ").decode("utf-8", "replace")[:200]


def mounts_of(state: Path) -> list[str]:
    """Mounts below ``state`` in our own mount namespace."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(state) in line]


def _seen_by(process: Path) -> bytes:
    parts = [_read(process / "mountinfo"), _read(process / "cmdline")]
    try:
        parts += [os.fsencode(os.readlink(link)) for link in (process / "fd").iterdir()]
    except OSError:
        pass  # gone, or not ours to look into
    return b"\n".join(parts)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
