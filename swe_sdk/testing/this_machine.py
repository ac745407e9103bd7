"""What checks look at on the machine that the suite runs on."""

from __future__ import annotations

from pathlib import Path

from swe_sdk.testing.expect import NotApplicable

PROC = Path("/proc")
_RESET_PEAK = "5"
"""Written to /proc/self/clear_refs it sets the peak to what is held now (proc(5))."""


class MemoryPeak:
    """The growth of this process's peak resident memory since the object was made."""

    def __init__(self) -> None:
        try:
            (PROC / "self/clear_refs").write_text(_RESET_PEAK)
        except OSError as error:
            raise NotApplicable(f"the peak of memory cannot be measured here: {error}") from error
        self._before = _peak_bytes()

    def growth_bytes(self) -> int:
        """Bytes."""
        return _peak_bytes() - self._before


def _peak_bytes() -> int:
    for line in (PROC / "self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise NotApplicable("the kernel does not tell the peak of memory")


def open_descriptors() -> int:
    """How many this process has."""
    return len(list((PROC / "self/fd").iterdir()))


def command_lines() -> list[bytes]:
    """Those of all processes of this machine that can be seen, boxes included where the kernel is shared."""
    return [_command_line(entry) for entry in PROC.iterdir() if entry.name.isdigit()]


def is_on_a_command_line(word: str) -> bool:
    """Whether some process of this machine has that word among its arguments."""
    return any(word.encode() in line for line in command_lines())


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
