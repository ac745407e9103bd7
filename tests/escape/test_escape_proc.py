"""Attacks by way of /proc: the supervisor's own files, the kernel's settings, other people's processes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import anyio
import pytest

from swe_sdk.sandbox.providers.local.box import LocalBox
from tests.escape.conftest import MakeBox
from tests.escape.world import World, attack, children, first_process, stat_field, status, survivor

pytestmark = pytest.mark.anyio
_OWN = (
    "/proc/sys/net/",
    "/proc/sys/fs/mqueue/",
    *(f"/proc/sys/kernel/{name}" for name in ("auto_msg", "msg", "sem", "shm")),
)
"""Settings of the box's own network and queues; and how many processes its own namespace may count up to."""


async def test_files_of_the_supervisor(box: LocalBox, world: World, user: str) -> None:
    """Root, memory, descriptors, environment of process 1, and of each of its threads."""
    program = """
        secret = sys.argv[1]
        for base in ("/proc/1", "/proc/1/task/1", "/proc/%d" % os.getppid()):
            for name in ("mem", "environ", "auxv", "maps", "smaps", "pagemap", "stack", "syscall", "io", "personality"):
                attempt(base + name, read, base + "/" + name)
            for name in ("mem", "clear_refs", "oom_score_adj", "oom_adj", "autogroup", "comm", "coredump_filter",
                         "timerslack_ns", "setgroups", "uid_map", "gid_map", "loginuid", "sched", "attr/current"):
                attempt("write " + name, write, base + "/" + name, b"15")
            for name in ("root", "cwd", "exe"):
                attempt("link " + name, os.readlink, base + "/" + name)
                attempt("by " + name, read, base + "/" + name + secret)
            for name in ("fd", "fdinfo", "map_files", "ns"):
                attempt("list " + name, os.listdir, base + "/" + name)
            for fd in range(30):
                attempt("fd", os.open, base + "/fd/%d" % fd, os.O_RDWR | os.O_NONBLOCK)
    """
    box_pid = first_process(box)
    before = Path(f"/proc/{box_pid}/comm").read_text()
    result = await attack(box, program, str(world.secret), user=user)
    assert world.marker not in result.stdout
    assert Path(f"/proc/{box_pid}/comm").read_text() == before


async def test_settings_of_the_kernel(box: LocalBox, user: str) -> None:
    """Each file below /proc/sys that can be opened for writing is written to."""
    program = """
        for base, _folders, files in os.walk("/proc/sys"):
            for name in files:
                path = os.path.join(base, name)
                try:
                    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                except OSError:
                    continue
                for text in (b"1", b"0", b"|/tmp/evil", b"99999"):
                    if attempt("try", os.write, fd, text):
                        print("wrote", path)
                os.close(fd)
    """
    before = _settings()
    result = await attack(box, program, user=user)
    after = _settings()
    wrote = {line.split()[1] for line in result.stdout.splitlines() if line.startswith("wrote")}
    assert {path: after.get(path) for path in wrote} == {path: before.get(path) for path in wrote}
    assert [path for path in wrote if not path.startswith((*_OWN, "/proc/sys/kernel/pid_max"))] == []
    constant = ("core_pattern", "modprobe", "hostname", "sysrq", "randomize_va_space", "overcommit_memory", "pid_max")
    kept = [path for path in before if path.endswith(constant)]
    assert [path for path in kept if after.get(path) != before[path]] == []


def _settings() -> dict[str, str]:
    found = {}
    for path in Path("/proc/sys").rglob("*"):
        try:
            found[str(path)] = path.read_text(errors="replace")
        except OSError:
            continue  # a folder, or write-only
    return found


async def test_secrets_of_the_kernel(box: LocalBox, user: str) -> None:
    """Symbols, memory, keys and the log of the kernel are there for the host's root, and empty in the box."""
    program = """
        for name in ("kallsyms", "kcore", "key-users", "keys", "kmsg", "sched_debug", "timer_list", "vmallocinfo",
                     "slabinfo", "kpageflags", "kpagecount", "iomem"):
            try:
                data = read("/proc/" + name, 1 << 16)
            except OSError:
                data = b""
            addresses = [line.split()[0] for line in data.splitlines() if line.split()]
            print(name, len(data) if name != "iomem" else sum(a.strip(b"0-") != b"" for a in addresses))
        for path in ("/dev/kmsg", "/dev/mem", "/dev/kmem", "/dev/port"):
            attempt(path, read, path)
        attempt("syslog", call, "syslog", 3, ctypes.create_string_buffer(4096), 4096)
    """
    result = await attack(box, program, user=user)
    sizes = dict(line.split() for line in result.stdout.splitlines() if line.count(" ") == 1)
    assert set(sizes.values()) == {"0"}, sizes
    assert "syslog failed" in result.stdout


async def test_magic_keys_and_other_switches(box: LocalBox, user: str) -> None:
    """Files of /proc that act on the whole machine. (h: the magic key that only prints a help text.)"""
    program = """
        attempt("sysrq", write, "/proc/sysrq-trigger", b"h")
        for base, _folders, files in os.walk("/proc"):
            if base.startswith("/proc/sys/") or base.split("/")[2:3] and base.split("/")[2].isdigit():
                continue
            for name in files:
                path = os.path.join(base, name)
                if os.path.islink(path):
                    continue
                try:
                    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
                except OSError:
                    continue
                print("can open", path, os.fstat(fd).st_rdev)
    """
    result = await attack(box, program, user=user)
    opened = [line.split()[2:] for line in result.stdout.splitlines() if line.startswith("can open")]
    # /dev/null is bound over some; whoever may read what the machine waits for may also ask to be told of more of it
    assert [path for path, device in opened if int(device) != os.makedev(1, 3) and "/pressure/" not in path] == []


async def test_writing_memory_that_maps_host_files(box: LocalBox) -> None:
    """A shared library of the host, in the program's own memory: through /proc/self/mem and through the map itself."""
    program = """
        line = next(l for l in open("/proc/self/maps") if ".so" in l and " r--p 00000000" in l)
        start = int(line.split("-")[0], 16)
        attempt("memory", os.open, "/proc/self/mem", os.O_RDWR)
        attempt("protection", call, 226 if ARM else 10, start, 4096, 3)
        ctypes.memmove(start + 64, b"ATTACKED", 8)
        print(line.split()[-1])
        print(ctypes.string_at(start + 64, 8))
    """
    result = await attack(box, program)
    *_, path, seen = result.stdout.split()
    library = Path(path)
    assert "ATTACKED" in seen, "the attack has no effect even on itself"
    assert b"ATTACKED" not in library.read_bytes()[:256], hashlib.sha256(library.read_bytes()).hexdigest()


async def test_processes_of_this_machine(box: LocalBox, world: World, user: str) -> None:
    """Their numbers mean nothing in a box."""
    program = """
        number = int(sys.argv[1])
        for pid in {number, number - 1, number + 1, int(sys.argv[2])}:
            for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):
                attempt("kill", os.kill, pid, sig)
                attempt("killpg", os.killpg, pid, sig)
            attempt("pidfd", os.pidfd_open, pid)
            attempt("ptrace", call, "ptrace", 16, pid, 0, 0)
            attempt("memory", read, "/proc/%d/mem" % pid)
        print("seen:", sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
    """
    result = await attack(box, program, str(world.bystander.pid), str(os.getpid()), user=user)
    seen = result.stdout.rpartition("seen: ")[2]
    assert len(seen.split(",")) == 2, f"a box sees more than its supervisor and itself: {seen}"


async def test_processes_of_another_box(make_box: MakeBox, box: LocalBox, user: str) -> None:
    other = await make_box()
    await other.exec("sleep 300 > /dev/null 2>&1 &")
    pid = await survivor(other)
    program = """
        for pid in range(2, 60):
            if pid == os.getpid():
                continue
            attempt("kill", os.kill, pid, signal.SIGKILL)
            attempt("memory", os.open, "/proc/%d/mem" % pid, os.O_RDWR)
        print(len([name for name in os.listdir("/proc") if name.isdigit()]))
    """
    result = await attack(box, program, user=user)
    assert result.stdout.endswith("\n2\n")
    assert children(first_process(other)) == [pid]
    assert stat_field(pid, 3) == "S"


async def test_what_the_supervisor_holds(box: LocalBox) -> None:
    """Should a program ever take it over: the box's root, no file of the host but its log, no socket but its own."""
    pid = first_process(box)
    if os.geteuid() == 0:  # nobody else may look
        held = await _settled(Path(f"/proc/{pid}/fd"))
        kinds = sorted(link.partition(":")[0] if ":" in link else Path(link).name for link in held)
        assert set(kinds) <= {"", "null", "zygote.log", "socket", "pipe", "oom_score_adj"}, held
        assert "/" in held
        assert kinds.count("socket") == 2, held  # its control socket, and the connection that waits for the next call
    about = status(pid)
    assert int(about["Uid"].split()[1]) != 0
    assert about["NoNewPrivs"] == "1"
    assert about["Seccomp"] == "2"


async def _settled(folder: Path) -> list[str]:
    """What descriptors lead to, once those of the last call are closed."""
    for _ in range(100):
        found = [os.readlink(entry) for entry in sorted(folder.iterdir())]
        if sum(link.startswith("socket:") for link in found) == 1:
            break
        await anyio.sleep(0.02)
    return found
