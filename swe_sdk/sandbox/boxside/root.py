"""From fresh namespaces to a box: mounts, identity, privileges. Runs once in each box's process 1."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import struct
from typing import Any, NamedTuple

from . import kernel, seccomp

AGENT_ID = 1000
"""User and group that programs run as, inside every box."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
MASKED = ("kallsyms", "key-users", "keys")
"""What everybody may read there; the rest of it is closed to whoever is not root on the host."""
_MASKED_FROM_ROOT = ("iomem", "ioports", "kpagecount", "kpageflags", "slabinfo", "timer_list", "vmallocinfo")
"""Besides, where a box's programs have the id of the host's root: a zygote in a container that root has started."""
_PROC_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_PROGRAM_CAPS = frozenset(
    {
        kernel.CAP_CHOWN,
        kernel.CAP_DAC_OVERRIDE,
        kernel.CAP_FOWNER,
        kernel.CAP_FSETID,
        kernel.CAP_KILL,
        kernel.CAP_SETGID,
        kernel.CAP_SETUID,
        kernel.CAP_SETPCAP,
        kernel.CAP_NET_BIND_SERVICE,
        kernel.CAP_SYS_CHROOT,
    }
)
"""At most this is what a program run as the box's root can have; as the agent user it has none."""
_FILE_CAPS = frozenset({kernel.CAP_DAC_OVERRIDE, kernel.CAP_FOWNER})
"""The supervisor reads and writes files for the box's owner, whom no permission bits in the box keep out."""
_SUPERVISOR_CAPS = _FILE_CAPS | {kernel.CAP_KILL, kernel.CAP_SETGID, kernel.CAP_SETUID}


class RootSpec(NamedTuple):
    """How to make one box. Paths of layers are relative to ``state``, which is mounted at a fixed place meanwhile.

    No dataclass: that module alone would add a tenth to the memory of every box.
    """

    state: str
    lowers: list[str]
    """From the top down."""
    upper: str
    work: str
    binds: list[dict[str, str]]
    """``source`` on the host, ``target`` in the box (it exists in a lower layer); read-only."""
    network: str
    id_range: bool
    """Whether ids 0 to 65535 are mapped (by a privileged zygote), or the agent's id alone."""
    rlimits: dict[str, int]
    shared_memory_bytes: int
    """Size of /dev/shm."""
    workdir: str = "/"
    memory_bytes: int | None = None
    """What the supervisor watches over, where no control group does."""
    disk_bytes: int | None = None
    """What the writable layer may hold, which the supervisor watches over; None = anything."""
    hostname: str = "sandbox"

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> RootSpec:
        """The counterpart of ``_asdict``."""
        return cls(**message)


def map_only_caller(uid: int, gid: int, inside: int = AGENT_ID) -> None:
    """Without privileges a process may map just its own id: it becomes the agent user, or another one ``inside``."""
    write_file("/proc/self/setgroups", "deny")
    write_file("/proc/self/uid_map", f"{inside} {uid} 1")
    write_file("/proc/self/gid_map", f"{inside} {gid} 1")


class Held(NamedTuple):
    """Descriptors that process 1 of a box could not open any more once it is in it."""

    oom_score: int
    """Its own ``oom_score_adj``."""
    layer: int | None
    """The writable layer without anything around it, if the supervisor is to watch it."""


def enter_box(spec: RootSpec) -> Held:
    """Turn this process, alone in its new namespaces, into process 1 of the box that ``spec`` describes."""
    oom_score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    os.setsid()
    if spec.network == "none":
        _loopback_up()
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    # Sources are taken while this process still has its caller's credentials; see grab_tree.
    trees = [(kernel.grab_tree(bind["source"], read_only=True), bind["target"]) for bind in spec.binds]
    # The state directory may lie below a directory closed to the box's user: from here on it is found at /tmp.
    kernel.mount(spec.state, "/tmp", None, kernel.MS_BIND | kernel.MS_REC)
    if spec.id_range:
        become(0)
    stage = "/tmp/stage"
    layer = None if spec.disk_bytes is None else kernel.grab_tree(f"/tmp/{spec.upper}", read_only=True)
    kernel.mount_overlay(
        stage, [f"/tmp/{lower}" for lower in spec.lowers], upper=f"/tmp/{spec.upper}", work=f"/tmp/{spec.work}"
    )
    for fd, target in trees:
        kernel.attach_tree(fd, target, within=stage)
    kernel.mount("proc", f"{stage}/proc", "proc", _PROC_FLAGS)
    _mask(f"{stage}/proc")
    _make_devices(f"{stage}/dev", spec.shared_memory_bytes)
    socket.sethostname(spec.hostname)
    os.chdir(stage)
    kernel.pivot_root_here()
    kernel.detach_mount(".")
    os.chdir("/")
    _no_namespaces_within()
    limit_segments(spec.shared_memory_bytes // 2)
    _freeze_proc()
    for name, value in spec.rlimits.items():
        limit(name, value)
    _drop_privileges(spec)
    make_workdir(spec.workdir)
    return Held(oom_score, layer)


def _drop_privileges(spec: RootSpec) -> None:
    kernel.forbid_new_privileges()
    kernel.limit_bounding_set(_PROGRAM_CAPS)
    if spec.id_range:
        os.setgroups([])
        os.setresgid(AGENT_ID, AGENT_ID, AGENT_ID)
        # Real and effective user are the agent's, so that programs start by vfork without a change of user. The saved
        # user stays root: it keeps the capabilities below, and keeps programs from setting this process's limits.
        os.setresuid(AGENT_ID, AGENT_ID, 0)
        kernel.set_capabilities(_SUPERVISOR_CAPS)
        kernel.die_with_parent()
    else:
        kernel.set_capabilities(_FILE_CAPS)
    kernel.hide_from_debuggers()
    if spec.network == "host":
        kernel.shut_abstract_sockets_out()  # they belong to the network, with which the box shares the host's
    seccomp.install()


def make_workdir(path: str) -> None:
    """Make the directory in which commands start, where there is none."""
    if os.path.isdir(path):
        return
    try:
        os.makedirs(path)
    except OSError:
        pass  # a file is in its place: commands will say so


def become(uid: int) -> None:
    """Take on one of the ids that are mapped."""
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.die_with_parent()


def _mask(proc: str) -> None:
    """Cover what /proc tells of the host's kernel beyond the box's own processes."""
    is_roots = os.stat(proc).st_uid == os.geteuid()  # it is the host's root's, who has no name in other boxes
    for name in (*MASKED, *(_MASKED_FROM_ROOT if is_roots else ())):
        if os.path.exists(f"{proc}/{name}"):
            kernel.mount("/dev/null", f"{proc}/{name}", None, kernel.MS_BIND)


def _make_devices(dev: str, shared_memory_bytes: int) -> None:
    kernel.mount("tmpfs", dev, "tmpfs", kernel.MS_NOSUID, "mode=755,size=1m")
    for name in _DEVICES:
        os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY))
        kernel.mount(f"/dev/{name}", f"{dev}/{name}", None, kernel.MS_BIND)
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"{dev}/{name}")
    os.mkdir(f"{dev}/shm")
    kernel.mount(
        "tmpfs", f"{dev}/shm", "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode=1777,size={shared_memory_bytes}"
    )
    os.mkdir(f"{dev}/pts")
    options = "newinstance,ptmxmode=0666,mode=620"
    kernel.mount("devpts", f"{dev}/pts", "devpts", kernel.MS_NOSUID | kernel.MS_NOEXEC, options)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        set_flags, up_running = 0x8914, 0x1 | 0x40
        fcntl.ioctl(probe, set_flags, struct.pack("16sh22x", b"lo", up_running))


def _no_namespaces_within() -> None:
    """Programs get no user namespaces of their own: most kernel holes of recent years needed one."""
    try:
        write_file("/proc/sys/user/max_user_namespaces", "0")
    except OSError:
        pass  # not writable for a single mapped id on some kernels; a defence in depth, not the wall


def limit_segments(size: int) -> bool:
    """Bound System V segments: they outlive who made them, so that in the end the supervisor would have to go."""
    try:
        write_file("/proc/sys/kernel/shmall", str(size // resource.getpagesize()))
    except OSError:
        return False  # not writable for a single mapped id; there, no control group counts the supervisor either
    return True


def _freeze_proc() -> None:
    """Programs read /proc and write nothing there.

    Above all not their own ``oom_score_adj``: those that make themselves less likely to be killed than their supervisor
    have it killed in their place when the box's memory is full.
    """
    kernel.mount(None, "/proc", None, _PROC_FLAGS | kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY)


def limit(name: str, value: int) -> None:
    """Set a limit of this process and all below it, such as "nproc"; never above the one that it has."""
    number = getattr(resource, f"RLIMIT_{name.upper()}")
    _soft, hard = resource.getrlimit(number)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def write_file(path: str, text: str) -> None:
    """Write a small file of the kernel's, at once."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
