"""What a program of this machine needs to be started: its loader and its shared libraries."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

_INTERPRETER = 3  # PT_INTERP
_LISTED = re.compile(r"^\s*(?:(\S+) => )?(/.*) \(0x[0-9a-f]+\)$", re.MULTILINE)


def interpreter(program: str) -> str | None:
    """The loader that a 64-bit ELF program names; None for a static one. ``ValueError`` where it is no such program."""
    with open(program, "rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{program} is no 64-bit ELF program")
        (table,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(table)
        entries = file.read(size * count)
        for at in range(0, size * count, size):
            kind, _flags, offset, _virtual, _physical, length = struct.unpack_from("<IIQQQQ", entries, at)
            if kind == _INTERPRETER:
                file.seek(offset)
                return file.read(length).rstrip(b"\0").decode()
    return None


def libraries(loader: str, program: Path) -> dict[str, str]:
    """The shared libraries of ``program`` and theirs: the name each is asked for by, and its path here.

    Asked of the loader itself, glibc's or musl's. The loader is left out.
    """
    done = subprocess.run([loader, "--list", str(program)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0 and "statically linked" not in done.stdout + done.stderr:
        raise ValueError(f"{loader} cannot list {program}: {done.stderr.strip()}")
    found: dict[str, str] = {}
    for name, path in _LISTED.findall(done.stdout):
        if Path(path).resolve() != Path(loader).resolve():
            found[Path(name or path).name] = path
    return found
