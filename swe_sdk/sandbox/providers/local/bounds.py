"""Limits of a local box: their defaults, how the kernel is told, and how well each is kept here."""

from __future__ import annotations

import os
import resource

from swe_sdk.sandbox.contract import Enforcement, Limits
from swe_sdk.sandbox.providers.local.cgroups import Cgroups

DEFAULT_MEMORY_MIB = max(1024, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 // 4 >> 20)
DEFAULT_SHARED_BYTES = 1 << 30
"""Of /dev/shm. What lies there outlives its programs, so that nothing but closing the box gives it back."""
_DEFAULT_PIDS = 4096
_RLIMITS = {"core": 0}


def enforcement(cgroups: Cgroups | None) -> dict[str, Enforcement]:
    """How each field of :class:`Limits` is kept."""

    def by_group(controller: str, otherwise: Enforcement) -> Enforcement:
        return "enforced" if cgroups is not None and cgroups.controls(controller) else otherwise

    return {
        "memory_mib": by_group("memory", "watched"),
        "cpus": by_group("cpu", "unavailable"),
        "pids": "enforced",
        "disk_mib": "watched",
        "file_size_bytes": "enforced",
        "open_files": "enforced",
    }


def rlimits(limits: Limits, *, own_user: bool) -> dict[str, int]:
    """What the kernel is told of each process, by the names of ``setrlimit``."""
    wanted = {"nproc": limits.pids or _DEFAULT_PIDS, "fsize": limits.file_size_bytes or in_bytes(limits.disk_mib)}
    wanted["nofile"] = limits.open_files or (None if own_user else _open_files_limit())
    return {**_RLIMITS, **{name: value for name, value in wanted.items() if value is not None}}


def in_bytes(mib: int | None) -> int | None:
    """Mebibytes as bytes; None stays None."""
    return None if mib is None else mib << 20


def _open_files_limit() -> int:
    """Fewer than this process may have open.

    Descriptors on their way through sockets are counted for each user of the host, against the limit of whoever sends.
    Where the programs in a box are the same user as we are, they could otherwise use up the count, and keep us from
    talking to any box.
    """
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(256, min(soft, 1 << 20) - 128)
