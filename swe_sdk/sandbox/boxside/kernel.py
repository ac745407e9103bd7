"""The few system calls that the standard library lacks. Linux 5.12 or newer, x86_64 and aarch64."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MS_PRIVATE = 1 << 18
_MNT_DETACH = 2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_PR_SET_CHILD_SUBREAPER = 36

CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_KILL, CAP_SETGID, CAP_SETUID = 0, 1, 3, 4, 5, 6, 7
CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_SYS_PTRACE = 8, 10, 18, 19

_AARCH64 = os.uname().machine == "aarch64"
_SYS_CLONE, _SYS_PIVOT_ROOT, _SYS_CAPSET = (220, 41, 91) if _AARCH64 else (56, 155, 126)
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT, _SYS_MOUNT_SETATTR = (
    428,
    429,
    430,
    431,
    432,
    442,
)
_SYS_OPENAT2, _SYS_LANDLOCK_CREATE_RULESET, _SYS_LANDLOCK_RESTRICT_SELF = 437, 444, 446

_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 0x4, 0x40
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x2, 0x10
_LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET = 1
_RACES = 1000
"""How often the kernel may say that something was renamed just while it went up a ".."; a program may try to."""
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 1, 2, 4
_FSCONFIG_SET_FLAG, _FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 0, 1, 6

_libc = ctypes.CDLL(None, use_errno=True)
# clone() runs Python code in the child, so the interpreter lock must stay held across the call: PyDLL, not CDLL.
_pylibc = ctypes.PyDLL(None, use_errno=True)
# Looked up here, once and in the zygote, not in each box.
_libc_syscall, _libc_mount, _libc_umount2, _libc_prctl = _libc.syscall, _libc.mount, _libc.umount2, _libc.prctl
_clone_syscall, _python = _pylibc.syscall, ctypes.pythonapi
_before_fork, _after_fork_here, _after_fork_there = (
    _python.PyOS_BeforeFork,
    _python.PyOS_AfterFork_Parent,
    _python.PyOS_AfterFork_Child,
)


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(number: int, *args: object, what: str) -> int:
    # ctypes passes a plain int as a C int: every number must be widened, or its upper half is garbage
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return _check(_libc_syscall(ctypes.c_long(number), *wide), what)


def _path(path: str) -> bytes:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")  # which the kernel would take for the end of the path
    return encoded


def clone(flags: int) -> int:
    """fork() with namespace flags: 0 in the child, process 1 of its pid namespace, and the pid in the parent."""
    null = ctypes.c_void_p(None)
    call = ctypes.c_long(_SYS_CLONE), ctypes.c_long(flags | signal.SIGCHLD), null, null, null, null
    _before_fork()
    pid: int = _clone_syscall(*call)
    if pid == 0:
        _after_fork_there()
    else:
        _after_fork_here()
    return _check(pid, "clone")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _check(_libc.unshare(flags), "unshare")


def join(namespace: int, kind: int) -> None:
    """setns(2)."""
    _check(_libc.setns(namespace, kind), "setns")


def mount(source: str | None, target: str, fstype: str | None, flags: int = 0, data: str | None = None) -> None:
    """mount(2)."""
    args = [None if value is None else _path(value) for value in (source, target, fstype)]
    options = None if data is None else data.encode()
    _check(_libc_mount(*args, ctypes.c_ulong(flags), options), f"mount {fstype or source} on {target}")


def detach_mount(target: str) -> None:
    """umount2(2), lazily."""
    _check(_libc_umount2(_path(target), _MNT_DETACH), f"umount {target}")


def pivot_root_here() -> None:
    """Make the current directory the root, and put the old root on top of it."""
    _syscall(_SYS_PIVOT_ROOT, b".", b".", what="pivot_root")


def grab_tree(path: str, *, read_only: bool) -> int:
    """A detached copy of the mount tree at ``path``, as a descriptor for :func:`attach_tree`.

    Opened with today's credentials, attached later with others: so a box can be given a directory that lies below one
    that the box's own user may not enter.
    """
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE
    fd = _syscall(_SYS_OPEN_TREE, _AT_FDCWD, _path(path), flags, what=f"open_tree {path}")
    attributes = _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | (_MOUNT_ATTR_RDONLY if read_only else 0)
    packed = struct.pack("QQQQ", attributes, 0, 0, 0)
    at = _AT_EMPTY_PATH | _AT_RECURSIVE
    _syscall(_SYS_MOUNT_SETATTR, fd, b"", at, packed, len(packed), what=f"mount_setattr {path}")
    return fd


def attach_tree(fd: int, target: str, *, within: str = "/") -> None:
    """Mount what :func:`grab_tree` returned on ``target`` below ``within``, and close the descriptor.

    A program of an earlier box may have put a link in the way: it leads to a place below ``within``, or to an error.
    """
    try:
        root = os.open(within, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            place = open_within(root, target, os.O_PATH | os.O_CLOEXEC)
        finally:
            os.close(root)
        try:
            flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
            _syscall(_SYS_MOVE_MOUNT, fd, b"", place, b"", flags, what=f"move_mount {target}")
        finally:
            os.close(place)
    finally:
        os.close(fd)


def open_within(root: int, path: str, flags: int, mode: int = 0) -> int:
    """open(2) as if the directory ``root`` were "/", so that no link and no ".." leads out of it (openat2(2)).

    Links of /proc that the kernel alone can follow are refused.
    """
    resolve = _RESOLVE_NO_MAGICLINKS | _RESOLVE_IN_ROOT
    how = struct.pack("QQQ", flags, mode & 0o7777 if flags & os.O_CREAT else 0, resolve)
    for _attempt in range(_RACES):
        try:
            return _syscall(_SYS_OPENAT2, root, _path(path), how, len(how), what=f"open {path}")
        except BlockingIOError as error:
            refused = error
    raise refused


def mount_overlay(target: str, lowers: list[str], upper: str, work: str) -> None:
    """Mount an overlay; ``lowers`` from the top down.

    ``userxattr``: allowed without privileges. ``volatile``: without it each unmount syncs the whole host file system
    (150 ms with dirty data); what a crash of the machine may lose is a live box's layer, which dies with it anyway.
    """
    fd = _syscall(_SYS_FSOPEN, b"overlay", 1, what="fsopen overlay")
    try:
        try:
            for lower in lowers:
                _configure(fd, _FSCONFIG_SET_STRING, "lowerdir+", lower)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _mount_overlay_before_6_5(target, lowers, upper, work)
            return
        _configure(fd, _FSCONFIG_SET_STRING, "upperdir", upper)
        _configure(fd, _FSCONFIG_SET_STRING, "workdir", work)
        _configure(fd, _FSCONFIG_SET_FLAG, "userxattr")
        _configure(fd, _FSCONFIG_SET_FLAG, "volatile")
        _configure(fd, _FSCONFIG_CMD_CREATE)
        attributes = _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV
        mounted = _syscall(_SYS_FSMOUNT, fd, 1, attributes, what="fsmount overlay")
    finally:
        os.close(fd)
    attach_tree(mounted, target)


def _mount_overlay_before_6_5(target: str, lowers: list[str], upper: str, work: str) -> None:
    """All layers in one option. The new call takes 256 bytes of it, the old one a page: a hundred layers of ours."""
    options = f"lowerdir={':'.join(lowers)},upperdir={upper},workdir={work},userxattr,volatile"
    mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options)


def _configure(fd: int, command: int, key: str | None = None, value: str | None = None) -> None:
    key_bytes = None if key is None else key.encode()
    value_bytes = None if value is None else _path(value)
    _syscall(
        _SYS_FSCONFIG, fd, command, key_bytes, value_bytes, 0, what=f"overlay option {key or 'create'} {value or ''}"
    )


def die_with_parent() -> None:
    """SIGKILL this process when its parent dies. Lost when credentials change: call it again after that."""
    _check(_libc_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl PDEATHSIG")


def adopt_orphans() -> None:
    """Be the parent of every process below this one whose own parent has gone, as process 1 is."""
    _check(_libc_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl CHILD_SUBREAPER")


def forbid_new_privileges() -> None:
    """No setuid program below this process gains anything."""
    _check(_libc_prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl NO_NEW_PRIVS")


def hide_from_debuggers() -> None:
    """Nobody in the box may trace this process or read its memory, environment or descriptors through /proc."""
    _check(_libc_prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl DUMPABLE")


def shut_abstract_sockets_out() -> None:
    """Keep this process and all below it from sockets without a file that others have made, where Landlock can.

    Since Linux 6.12. Needs ``no_new_privs``.
    """
    handled = struct.pack("QQQ", 0, 0, _LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)
    try:
        rules = _syscall(_SYS_LANDLOCK_CREATE_RULESET, handled, len(handled), 0, what="landlock_create_ruleset")
    except OSError:
        return  # an older kernel, or one without Landlock
    try:
        _syscall(_SYS_LANDLOCK_RESTRICT_SELF, rules, 0, what="landlock_restrict_self")
    finally:
        os.close(rules)


def limit_bounding_set(keep: frozenset[int]) -> None:
    """Drop every capability outside ``keep`` from what programs below can ever have."""
    for capability in range(64):
        if capability not in keep and _libc_prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            return  # past the last one that the kernel knows


def set_capabilities(keep: frozenset[int]) -> None:
    """Make ``keep`` this process's permitted and effective capabilities; nothing is inheritable."""
    mask = sum(1 << capability for capability in keep)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = struct.pack("Ii", 0x20080522, 0)
    data = struct.pack("IIIIII", low, low, 0, high, high, 0)
    _syscall(_SYS_CAPSET, header, data, what="capset")
