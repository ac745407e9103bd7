"""The system-call filter of every box: a wall behind the walls.

Namespaces, an id without rights on the host and an empty capability set keep a program in. The filter takes away what
it could still use to attack the kernel behind them, or the box's own supervisor: interfaces that ordinary programs do
not need and that were the way out in most published escapes. A refused call fails with an error; nothing is killed, so
programs that merely try (as many test suites do) go on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Sequence

_X86_64 = {
    "socket": 41, "socketpair": 53, "ioctl": 16, "clone": 56, "setpriority": 141, "sched_setparam": 142,
    "sched_setscheduler": 144, "sched_setaffinity": 203, "ioprio_set": 251, "prlimit64": 302, "sched_setattr": 314,
    "clone3": 435, "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442, "add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298,
    "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "kexec_load": 246,
    "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176, "open_by_handle_at": 304,
    "name_to_handle_at": 303, "quotactl": 179, "quotactl_fd": 443, "acct": 163, "swapon": 167, "swapoff": 168,
    "reboot": 169, "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "syslog": 103,
    "lookup_dcookie": 212, "vhangup": 153, "kcmp": 312, "move_pages": 279, "migrate_pages": 256, "mbind": 237,
    "set_mempolicy": 238, "fanotify_init": 300, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "modify_ldt": 154, "uselib": 134, "ustat": 136, "sysfs": 139, "nfsservctl": 180, "personality": 135, "fcntl": 72,
}  # fmt: skip
_AARCH64 = {
    "socket": 198, "socketpair": 199, "ioctl": 29, "clone": 220, "setpriority": 140, "sched_setparam": 118,
    "sched_setscheduler": 119, "sched_setaffinity": 122, "ioprio_set": 30, "prlimit64": 261, "sched_setattr": 274,
    "clone3": 435, "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442, "add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241,
    "userfaultfd": 282, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "kexec_load": 104,
    "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106, "open_by_handle_at": 265,
    "name_to_handle_at": 264, "quotactl": 60, "quotactl_fd": 443, "acct": 89, "swapon": 224, "swapoff": 225,
    "reboot": 142, "settimeofday": 170, "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266, "syslog": 116,
    "lookup_dcookie": 18, "vhangup": 58, "kcmp": 272, "move_pages": 239, "migrate_pages": 238, "mbind": 235,
    "set_mempolicy": 237, "fanotify_init": 262, "sethostname": 161, "setdomainname": 162, "nfsservctl": 42,
    "personality": 92, "fcntl": 25,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86_64, 317), "aarch64": (0xC00000B7, _AARCH64, 277)}
"""Audit number, call numbers, number of seccomp(2)."""

_NOT_THERE = frozenset({"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"})
"""Told to be missing, so that libraries take the older way: clone3 hides its flags from any filter."""
_BY_ARGUMENT = frozenset(
    {"socket", "socketpair", "ioctl", "clone", "setpriority", "ioprio_set", "prlimit64", "personality", "fcntl"}
    | {"sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"}
)
_FAMILIES = (1, 2, 10, 16)
"""unix, inet, inet6, netlink. The others are not bound to a network namespace (vsock), or mere attack surface."""
_NAMESPACE_FLAGS = 0x7E020000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_F_SETLEASE, _F_SETDELEG = 1024, 1040
"""Whoever opens or starts a leased file waits up to 45 s for its holder: the supervisor would, at each program."""
_SUPERVISOR = 1
_ADDR_NO_RANDOMIZE = 0x0040000
_X32_BIT = 0x40000000
_FIRST_UNKNOWN = 463
"""Calls from here on (Linux 6.13 and newer) are younger than this list: one that it ought to refuse may be among them.
All machines number new calls alike. Libraries take an older way where a call is missing."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER_AT, _ARCH_AT, _ARGS_AT = 0, 4, 16

Instruction = tuple[int, int, int, int]


def program(machine: str) -> list[Instruction]:
    """The filter as classic BPF instructions (code, jump if true, jump if false, operand)."""
    audit, numbers, _seccomp = _MACHINES[machine]
    body: list[Instruction] = [(_LOAD, 0, 0, _ARCH_AT), (_EQUAL, 1, 0, audit), _refuse(errno.ENOSYS)]
    body.append((_LOAD, 0, 0, _NUMBER_AT))
    if machine == "x86_64":
        body += [(_AT_LEAST, 0, 1, _X32_BIT), _refuse(errno.ENOSYS)]
    body += [(_AT_LEAST, 0, 1, _FIRST_UNKNOWN), _refuse(errno.ENOSYS)]
    return [*body, *_tree(sorted((number, _answer(name)) for name, number in numbers.items()))]


def _tree(answers: Sequence[tuple[int, list[Instruction]]]) -> list[Instruction]:
    """Find the call's number by halves, and give its answer; all others are allowed.

    When a box is born the kernel tries its filter on every call there is: each of them would else be compared with
    each of ours.
    """
    if len(answers) == 1:
        ((number, answer),) = answers
        return [(_EQUAL, 0, len(answer), number), *answer, (_RETURN, 0, 0, _ALLOW)]
    middle = len(answers) // 2
    below, above = _tree(answers[:middle]), _tree(answers[middle:])
    return [(_AT_LEAST, len(below), 0, answers[middle][0]), *below, *above]


def _answer(name: str) -> list[Instruction]:
    if name in _BY_ARGUMENT:
        return list(_check(name))
    return [_refuse(errno.ENOSYS if name in _NOT_THERE else errno.EPERM)]


def _check(name: str) -> Iterator[Instruction]:
    """The rest of the program for one call whose arguments decide; always ends in a return."""
    allow, refuse = (_RETURN, 0, 0, _ALLOW), _refuse(errno.EPERM)
    if name in ("socket", "socketpair"):
        yield _argument(0)
        for left, family in zip(range(len(_FAMILIES), 0, -1), _FAMILIES, strict=True):
            yield (_EQUAL, left, 0, family)
        yield _refuse(errno.EAFNOSUPPORT)
        yield allow
    elif name == "ioctl":
        yield from [_argument(1), (_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), refuse, allow]
    elif name == "fcntl":
        yield from [_argument(1), (_EQUAL, 1, 0, _F_SETLEASE), (_EQUAL, 0, 1, _F_SETDELEG), refuse, allow]
    elif name == "clone":
        yield from [_argument(0), (_ANY_BIT, 0, 1, _NAMESPACE_FLAGS), refuse, allow]
    elif name in ("setpriority", "ioprio_set"):
        # by user or group they would reach the supervisor too; by process, all but the supervisor may be changed
        by_process = 0 if name == "setpriority" else 1
        yield from [_argument(0), (_EQUAL, 0, 2, by_process), _argument(1), (_EQUAL, 0, 1, _SUPERVISOR), refuse, allow]
    elif name == "personality":
        yield from [_argument(0), (_EQUAL, 3, 0, 0), (_EQUAL, 2, 0, _ADDR_NO_RANDOMIZE), (_EQUAL, 1, 0, 0xFFFFFFFF)]
        yield from [refuse, allow]
    else:
        yield from [_argument(0), (_EQUAL, 0, 1, _SUPERVISOR), refuse, allow]


def _argument(index: int) -> Instruction:
    return (_LOAD, 0, 0, _ARGS_AT + 8 * index)  # the lower half: all arguments looked at are 32 bits wide


def _refuse(code: int) -> Instruction:
    return (_RETURN, 0, 0, _ERROR | code)


def _assemble(machine: str) -> tuple[ctypes.Array[ctypes.c_char], bytes] | None:
    """The filter as the kernel takes it, and a header that points at it; None for an unknown machine."""
    if machine not in _MACHINES:
        return None
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program(machine))
    buffer = ctypes.create_string_buffer(code, len(code))
    return buffer, struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))


_MACHINE = os.uname().machine
_ASSEMBLED = _assemble(_MACHINE)
"""Made once, by the zygote: in every box it would take a tenth of the time of its birth."""
_syscall = ctypes.CDLL(None, use_errno=True).syscall


def install() -> None:
    """Put the filter on this process and all below it. Needs ``no_new_privs``; ``OSError`` where it cannot be."""
    if _ASSEMBLED is None:
        raise OSError(errno.ENOSYS, f"no system-call filter for {_MACHINE}")
    number, set_mode_filter = ctypes.c_long(_MACHINES[_MACHINE][2]), ctypes.c_long(1)
    if _syscall(number, set_mode_filter, ctypes.c_long(0), _ASSEMBLED[1]) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"seccomp: {os.strerror(error)}")
