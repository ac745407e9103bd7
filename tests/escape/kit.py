"""What every attack starts with: this text is put before each attack's own and runs inside the box.

Standard library only, and no syntax newer than Python 3.8. Nothing here decides whether an attack has failed.
"""

# ruff: noqa: F401
import array
import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading
import time

ARM = os.uname().machine == "aarch64"
LIBC = ctypes.CDLL(None, use_errno=True)
# name: (x86_64, aarch64); None where the machine has no such call
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280), "capset": (126, 91),
    "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112), "clone": (56, 220),
    "clone3": (435, 435), "exit": (60, 93), "fanotify_init": (300, 262), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "init_module": (175, 105), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None), "ioprio_set": (251, 30),
    "kcmp": (312, 272), "kexec_load": (246, 104), "keyctl": (250, 219), "mbind": (237, 235),
    "migrate_pages": (256, 238), "modify_ldt": (154, None), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60), "reboot": (169, 142),
    "request_key": (249, 218), "rt_sigqueueinfo": (129, 138), "sched_setattr": (314, 274), "sethostname": (170, 161),
    "setns": (308, 268), "settimeofday": (164, 170), "swapon": (167, 224), "syslog": (103, 116), "tgkill": (234, 131),
    "umount2": (166, 39), "unshare": (272, 97), "userfaultfd": (323, 282), "vhangup": (153, 58),
}  # fmt: skip


def call(name, *args):
    """A raw system call: its result, or OSError. Calls that the machine lacks are as good as refused."""
    number = NUMBERS[name][ARM] if isinstance(name, str) else name
    if number is None:
        raise OSError(errno.ENOSYS, "no such call on this machine")
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    result = LIBC.syscall(ctypes.c_long(number), *wide)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def attempt(label, function, *args, **named):
    """Try something, go on whatever comes of it, and say what came of it."""
    try:
        print(label, "->", repr(function(*args, **named))[:200], flush=True)
        return True
    except (OSError, ValueError, OverflowError, subprocess.SubprocessError) as error:
        print(label, "failed:", errno.errorcode.get(getattr(error, "errno", None), repr(error)[:200]), flush=True)
        return False


def attempt_each(calls):
    """``attempt`` for each (label, function, *arguments)."""
    for label, function, *args in calls:
        attempt(label, function, *args)


def read(path, size=4096):
    """The start of a file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def write(path, data):
    """Write to a file that is there."""
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        return os.write(fd, data)
    finally:
        os.close(fd)


def daemon():
    """Leave parent, session, environment and standard streams behind; True in the daemon."""
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    return True
