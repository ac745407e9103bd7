"""Which process owns a sandbox, and whether that process still lives.

A pid alone says nothing: it is given to another process after a while, starts again from 1 with every boot, and means
something else in every pid namespace. So an owner is a machine, its boot, a pid namespace, a pid and the moment when
that process began.
"""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from swe_sdk.model.record import Record

_NO_MACHINE_ID = "-"
_DEAD_STATES = "ZX"


class Owner(Record):
    """One process. A forked child is another owner, and so is a program that this process becomes by ``exec``."""

    host: str
    """Host name and a digest of ``/etc/machine-id``: a host name alone is the same on many machines."""
    boot_id: str
    """Of the running kernel: the same in all containers of a machine, another one after each boot."""
    pid: int
    started: int
    """When it began, in clock ticks after the boot."""
    pid_namespace: int
    """Inode of the namespace in which ``pid`` means that process."""
    token: str
    """Another one for each program that the process becomes by ``exec``, which changes neither pid nor start."""

    @property
    def label(self) -> str:
        """As text, for a label of a container; no secret is in it. :func:`parse_owner` reads it."""
        return self.model_dump_json()

    @property
    def key(self) -> str:
        """As the name of a file."""
        return f"{self.boot_id[:8] or 'none'}-{self.pid}-{self.started}-{self.token}"


def parse_owner(label: str) -> Owner | None:
    """The owner that a label names, or None where it is not one of ours."""
    try:
        return Owner.model_validate_json(label)
    except ValidationError:
        return None


@cache
def current_owner() -> Owner:
    """This process."""
    return Owner(
        host=_host(),
        boot_id=_boot_id(),
        pid=os.getpid(),
        started=_started("self") or 0,
        pid_namespace=os.stat("/proc/self/ns/pid").st_ino,
        token=_token(),
    )


os.register_at_fork(after_in_child=current_owner.cache_clear)


def is_on_this_machine(owner: Owner) -> bool:
    """Whether it is, or was before a boot, a process of this machine, be it in another container."""
    me = current_owner()
    return owner.boot_id == me.boot_id or (owner.host == me.host and has_machine_id(me))


def has_machine_id(owner: Owner) -> bool:
    """Whether its host is told from all others, also after a boot."""
    return not owner.host.endswith(_NO_MACHINE_ID)


def is_alive(owner: Owner) -> bool | None:
    """Whether that process lives; None where it cannot be known from here: another machine, or another pid namespace.

    A False is certain. The machine may have been booted since, or the pid may be another process's by now.
    """
    me = current_owner()
    if owner.boot_id != me.boot_id:
        return False if is_on_this_machine(owner) else None
    if owner.pid_namespace != me.pid_namespace:
        return None
    if owner.pid == me.pid:
        return owner == me
    return _is_running(owner.pid, owner.started)


def _is_running(pid: int, started: int) -> bool | None:
    if os.readlink("/proc/self") != str(os.getpid()):
        return None  # /proc is that of another pid namespace, where the same pid is another process
    found = _started(pid)
    if found is not None:
        return found == started
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return None  # /proc hides the processes of other users (hidepid), so its start cannot be compared
    return _started(pid) == started  # a zombie, or one that has just begun


def _started(pid: int | str) -> int | None:
    """When a process began; None where there is none, or it has ended and was not waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in _DEAD_STATES else int(fields[19])


def _token() -> str:
    """Of the addresses to which the kernel has loaded the program: random, and not changed by importing us again."""
    try:
        return hashlib.sha256(Path("/proc/self/auxv").read_bytes()).hexdigest()[:8]
    except OSError:
        return "unknown"  # a program that may not look at itself


@cache
def _host() -> str:
    try:
        machine_id = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine_id = ""
    # machine-id(5) asks not to give it away as it is
    digest = hashlib.sha256(f"swe_sdk {machine_id}".encode()).hexdigest()[:16] if machine_id else _NO_MACHINE_ID
    return f"{platform.node()}/{digest}"


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
