"""Attacks on the kernel itself: namespaces within, keys, little-used and old system calls, clocks, identities."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import pytest

from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.escape.conftest import MakeBox
from tests.escape.world import attack, dedent, first_process, limits, status, survivor

pytestmark = pytest.mark.anyio
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


async def test_namespaces_within(box: LocalBox, user: str) -> None:
    """Each kind, by each call that makes one: seen from outside, every process is in the supervisor's."""
    program = """
        kinds = {"time": 0x80, "mnt": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
                 "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000}
        for name, flag in kinds.items():
            attempt("unshare " + name, call, "unshare", flag)
            attempt("unshare user and " + name, call, "unshare", 0x10000000 | flag)
            if name != "time":
                try:
                    if call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0) == 0:
                        time.sleep(60)
                except OSError as error:
                    print("clone", name, error)
            arguments = struct.pack("QQQQQQQQQQQ", flag, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0)
            try:
                if call("clone3", arguments, len(arguments)) == 0:
                    time.sleep(60)
            except OSError as error:
                print("clone3", name, error)
        attempt("raise", write, "/proc/sys/user/max_user_namespaces", b"100")
        if daemon():
            time.sleep(5)
    """
    result = await attack(box, program, user=user)
    assert "-> 0" not in result.stdout
    pid = await survivor(box)
    if os.geteuid() == 0:
        made = [kind for kind in NAMESPACES if _namespace(pid, kind) != _namespace(first_process(box), kind)]
        assert made == []
    ours = [kind for kind in NAMESPACES if _namespace(first_process(box), kind) == _namespace(os.getpid(), kind) != ""]
    assert ours == []


def _namespace(pid: int, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""  # only root may look into a supervisor


async def test_joining_other_namespaces(box: LocalBox, user: str) -> None:
    program = """
        for who in ("1", "self", str(os.getppid())):
            for kind in ("mnt", "net", "pid", "user", "uts", "ipc", "cgroup", "time"):
                try:
                    fd = os.open("/proc/%s/ns/%s" % (who, kind), os.O_RDONLY)
                except OSError as error:
                    print(error)
                    continue
                attempt("join " + kind, call, "setns", fd, 0)
                for request in (0xB701, 0xB702):  # the owner of it, its parent
                    if attempt("relative", fcntl.ioctl, fd, request):
                        attempt("join it", call, "setns", fcntl.ioctl(fd, request), 0)
        attempt("by process", call, "setns", call("pidfd_open", 1, 0), 0x7E020000)
    """
    result = await attack(box, program, user=user)
    assert "join" not in "".join(line for line in result.stdout.splitlines() if "->" in line)


async def test_keyrings(box: LocalBox, user: str) -> None:
    """Keys are shared by user across boxes; the SDK's own session keyring is inherited."""
    program = """
        SESSION, USER, PROCESS = -3, -4, -2
        for ring in (SESSION, USER, PROCESS, -1, -5):
            attempt("add", call, "add_key", b"user", b"attack", b"x", 1, ring)
            attempt("get", call, "keyctl", 0, ring, 1)
            attempt("describe", call, "keyctl", 6, ring, ctypes.create_string_buffer(256), 256)
            attempt("read", call, "keyctl", 11, ring, ctypes.create_string_buffer(256), 256)
            attempt("revoke", call, "keyctl", 3, ring)
            attempt("clear", call, "keyctl", 7, ring)
            attempt("allow all", call, "keyctl", 5, ring, 0x3F3F3F3F)
        attempt("join", call, "keyctl", 1, b"attack")
        attempt("request", call, "request_key", b"user", b"attack", b"x", SESSION)
    """
    result = await attack(box, program, user=user)
    assert "->" not in result.stdout
    assert "attack" not in Path("/proc/keys").read_text()


async def test_refused_calls(box: LocalBox, user: str) -> None:
    """What ordinary programs do not need, and what was the way out in most published escapes."""
    program = """
        attribute = bytes(128)
        calls = [
            ("bpf", 0, attribute, 128), ("bpf", 5, attribute, 128), ("perf_event_open", attribute, 0, -1, -1, 0),
            ("userfaultfd", 0), ("userfaultfd", 1), ("io_uring_setup", 8, attribute),
            ("io_uring_enter", 0, 0, 0, 0, 0, 0), ("io_uring_register", 0, 0, 0, 0),
            ("kexec_load", 0, 0, 0, 0), ("init_module", attribute, 128, b""),
            ("finit_module", 0, b"", 0), ("swapon", b"/tmp/x", 0), ("acct", b"/tmp/x"), ("quotactl", 0, b"", 0, 0),
            ("reboot", 0, 0, 0, 0), ("iopl", 3), ("ioperm", 0, 8, 1), ("modify_ldt", 0, attribute, 128),
            ("syslog", 2, attribute, 128), ("fanotify_init", 0, 0), ("kcmp", 1, 1, 0, 0, 0), ("vhangup",),
            ("mbind", 0, 0, 0, 0, 0, 0), ("personality", 0x0400000), ("personality", 8),
            ("move_pages", 1, 0, 0, 0, 0, 0),
            ("name_to_handle_at", -100, b"/", attribute, attribute, 0), ("open_by_handle_at", 0, attribute, 0),
        ]
        for name, *arguments in calls:
            attempt(name, call, name, *arguments)
        for family in list(range(3, 10)) + list(range(11, 16)) + list(range(17, 46)):
            for kind in (1, 2, 3, 5):
                attempt("family", socket.socket, family, kind, 0)
        for family in (38, 40, 17, 16 + 1):
            attempt("pair", socket.socketpair, family, 1)
    """
    result = await attack(box, program, user=user)
    assert [line for line in result.stdout.splitlines() if "->" in line] == []
    codes = {line.split("failed: ")[1] for line in result.stdout.splitlines()}
    assert codes <= {"EPERM", "ENOSYS", "EAFNOSUPPORT"}, result.stdout


async def test_calls_younger_than_the_filter(box: LocalBox) -> None:
    """A kernel newer than the list of refused calls brings none that gets past it."""
    program = """
        found = set()
        for number in list(range(463, 700)) + [1 << 16, 1 << 20, 1 << 29]:
            try:
                call(number, 0, 0, 0, 0, 0, 0)
                print("there:", number)
            except OSError as error:
                found.add(error.errno)
        print([errno.errorcode[code] for code in found])
    """
    assert (await attack(box, program)).stdout == "['ENOSYS']\n"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only there programs have other ways to call the kernel")
async def test_calls_by_other_doors(box: LocalBox) -> None:
    """32-bit calls (int 0x80) and the x32 numbers, which a filter by number alone would take for other calls.

    The call tried is unshare(CLONE_NEWUSER), by machine code in the program's own memory.
    """
    program = """
        NEWUSER = 0x10000000
        def run(code):
            memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            memory.write(code)
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            return ctypes.CFUNCTYPE(ctypes.c_long)(address)()
        int80 = b"\\x53\\xb8" + struct.pack("I", 310) + b"\\xbb" + struct.pack("I", NEWUSER)
        int80 += b"\\xcd\\x80\\x5b\\x48\\x98\\xc3"
        x32 = b"\\x48\\xc7\\xc0" + struct.pack("I", 0x40000000 | 272) + b"\\x48\\xc7\\xc7" + struct.pack("I", NEWUSER)
        x32 += b"\\x0f\\x05\\xc3"
        before = os.readlink("/proc/self/ns/user")
        for name, code in (("int80", int80), ("x32", x32)):
            pid = os.fork()
            if pid == 0:
                print(name, run(code), os.readlink("/proc/self/ns/user") == before, flush=True)
                os._exit(0)
            _, ending = os.waitpid(pid, 0)
            if os.WIFSIGNALED(ending):
                print(name, "killed by signal", os.WTERMSIG(ending), True, flush=True)
    """
    lines = (await attack(box, program)).stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.endswith("True"), line
        assert "-38" in line or "killed by signal" in line, line


async def test_clocks(box: LocalBox, user: str) -> None:
    """Of this machine there is one: it runs on as it did."""
    program = """
        year_2000 = struct.pack("qq", 946684800, 0)
        attempt("settimeofday", call, "settimeofday", year_2000, None)
        for clock in (0, 1, 7, 11):
            attempt("clock_settime", call, "clock_settime", clock, year_2000)
            attempt("clock_adjtime", call, "clock_adjtime", clock, struct.pack("I", 1) + bytes(204))
        attempt("python", time.clock_settime, time.CLOCK_REALTIME, 946684800)
        attempt("adjtimex", call, "adjtimex", struct.pack("I", 0x4000) + bytes(204))
        attempt("step", call, "adjtimex", struct.pack("I", 0x0100) + bytes(204))
        for path in ("/dev/rtc", "/dev/rtc0", "/dev/ptp0"):
            attempt(path, os.open, path, os.O_RDWR)
        attempt("date", subprocess.run, ["date", "-s", "2000-01-01"], stderr=subprocess.DEVNULL)
        attempt("offsets", write, "/proc/self/timens_offsets", b"monotonic 1000 0")
    """
    before = time.time() - time.monotonic()
    await attack(box, program, user=user)
    assert abs(time.time() - time.monotonic() - before) < 1


async def test_host_name(box: LocalBox, user: str) -> None:
    program = """
        attempt("name", call, "sethostname", b"attacked", 8)
        attempt("python", socket.sethostname, "attacked")
        attempt("setting", write, "/proc/sys/kernel/hostname", b"attacked")
        print(os.uname().nodename)
    """
    before = os.uname()
    result = await attack(box, program, user=user)
    assert os.uname() == before
    assert result.stdout.endswith("\nsandbox\n")


async def test_other_identities(box: LocalBox, user: str, local_provider: LocalProvider) -> None:
    """Every id the kernel knows, by every call: seen from outside, none beyond the box's own range comes about."""
    program = """
        SET, AMBIENT, SECUREBITS, KEEP, NO_NEW = 24, 47, 28, 8, 38
        for number in (0, 1, 999, 1001, 65534, 65535, 65536, 1 << 20, 1900000000, 1900001000, 2**32 - 2):
            for name in ("setuid", "seteuid", "setgid", "setegid"):
                if user == "agent":
                    attempt(name, getattr(os, name), number)
            attempt("groups", os.setgroups, [number])
        header, everything = struct.pack("Ii", 0x20080522, 0), b"\\xff" * 24
        attempt("capabilities", call, "capset", header, everything)
        for capability in range(42):
            LIBC.prctl(AMBIENT, 2, capability, 0, 0)
        LIBC.prctl(SECUREBITS, 0x2F, 0, 0, 0)
        LIBC.prctl(KEEP, 1, 0, 0, 0)
        LIBC.prctl(NO_NEW, 0, 0, 0, 0)
        LIBC.prctl(22, 0, 0, 0, 0)
        attempt("map", write, "/proc/self/uid_map", b"0 0 1")
        attempt("groups", write, "/proc/self/setgroups", b"allow")
        attempt("login", write, "/proc/self/loginuid", b"0")
        if daemon():
            time.sleep(5)
    """
    await attack(box, f"user = {user!r}\n" + dedent(program), user=user)
    pid = await survivor(box)
    about = status(pid)
    first, count = local_provider.identity.first, local_provider.identity.count
    allowed = range(os.getuid(), os.getuid() + 1) if first is None else range(first, first + count)
    for number in (*about["Uid"].split(), *(about["Gid"].split() if first is not None else ())):
        assert int(number) in allowed
    assert (about["NoNewPrivs"], about["Seccomp"]) == ("1", "2")
    assert int(about["CapEff"], 16) & ~0x405FB == 0, "more than a box's root may have"
    assert user == "root" or int(about["CapEff"], 16) == 0
    assert about["CapBnd"] == status(first_process(box))["CapBnd"]


async def test_limits_raised(make_box: MakeBox, user: str) -> None:
    """A program's hard limits are what it started with, seen from outside."""
    box = await make_box(limits={"pids": 200, "open_files": 100, "file_size_bytes": 1 << 20})
    program = """
        for number in range(16):
            for value in ((1 << 40, 1 << 40), (-1, -1)):
                attempt("raise", resource.setrlimit, number, value)
                attempt("raise", resource.prlimit, 0, number, value)
                attempt("raise", resource.prlimit, os.getpid(), number, value)
        if daemon():
            time.sleep(5)
    """
    await attack(box, program, user=user)
    pid = await survivor(box)
    hard = {name: value.split()[1] for name, value in limits(pid).items()}
    assert int(hard["Max processes"]) <= 200
    assert hard["Max open files"] == "100"
    assert hard["Max file size"] == str(1 << 20)
    assert hard["Max core file size"] in ("0", "1")
    assert hard["Max realtime priority"] == "0"
    assert hard["Max nice priority"] == "0"


async def test_control_groups_and_sysfs(box: LocalBox, user: str) -> None:
    """Nothing of either is there, and what /proc tells of the groups is relative to the box."""
    program = """
        print("sys:", os.listdir("/sys"))
        print("groups:", sorted({line.strip().split(":", 2)[2] for line in open("/proc/self/cgroup")}))
        for kind in ("cgroup", "cgroup2", "sysfs", "securityfs", "debugfs", "tracefs", "configfs", "efivarfs"):
            attempt(kind, call, "mount", kind.encode(), b"/sys", kind.encode(), 0, None)
        for path in ("/sys/fs/cgroup", "/sys/kernel", "/sys/fs/cgroup/memory/release_agent", "/proc/1/cgroup"):
            attempt(path, os.open, path, os.O_RDWR)
    """
    result = await attack(box, program, user=user)
    assert "sys: []" in result.stdout
    assert "groups: ['/']" in result.stdout
