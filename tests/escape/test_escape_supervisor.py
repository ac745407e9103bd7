"""Attacks on the box's supervisor: to change, starve, block, imitate or mislead it, and so to earn a mask."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import SandboxError, TransferFailed
from swe_sdk.sandbox.providers.local.box import LocalBox
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.escape.conftest import MakeBox
from tests.escape.world import attack, first_process

pytestmark = pytest.mark.anyio


async def test_changing_its_limits_and_priority(box: LocalBox, user: str) -> None:
    """The guard compares all of them, as seen from outside."""
    program = """
        for number in range(16):
            attempt("prlimit", resource.prlimit, 1, number, (1, 1))
            attempt("prlimit hard", resource.prlimit, 1, number, (0, 0))
        attempt("by process", os.setpriority, os.PRIO_PROCESS, 1, 19)
        attempt("by group", os.setpriority, os.PRIO_PGRP, 1, 19)
        attempt("by user", os.setpriority, os.PRIO_USER, 0, 19)
        attempt("by user 2", os.setpriority, os.PRIO_USER, 1000, 19)
        attempt("idle", os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
        attempt("batch", os.sched_setscheduler, 1, os.SCHED_BATCH, os.sched_param(0))
        attempt("parameters", os.sched_setparam, 1, os.sched_param(0))
        attempt("attributes", call, "sched_setattr", 1, struct.pack("IIQiIQQQ", 48, 5, 0, 19, 0, 0, 0, 0), 0)
        attempt("high bits", call, "sched_setattr", (7 << 32) + 1, struct.pack("IIQiIQQQ", 48, 5, 0, 19, 0, 0, 0, 0), 0)
        attempt("affinity", os.sched_setaffinity, 1, {max(os.sched_getaffinity(0))})
        for which, who in ((1, 1), (2, 1), (3, 1000), (3, 0)):
            attempt("io priority", call, "ioprio_set", which, who, 3 << 13)
        attempt("adjust", write, "/proc/1/oom_score_adj", b"1000")
        attempt("autogroup", write, "/proc/1/autogroup", b"19")
    """
    await attack(box, program, user=user)


async def test_taking_the_processor(box: LocalBox) -> None:
    """Real-time classes and raised priorities would shut everybody else out."""
    program = """
        for policy in (os.SCHED_FIFO, os.SCHED_RR):
            attempt("real time", os.sched_setscheduler, 0, policy, os.sched_param(50))
        attempt("deadline", call, "sched_setattr", 0, struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10**6, 10**9, 10**9), 0)
        attempt("nice", os.nice, -10)
        attempt("real-time io", call, "ioprio_set", 1, 0, 1 << 13)
        print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
    """
    assert (await attack(box, program)).stdout.endswith("\n0 0\n")


async def test_debugging_it(box: LocalBox, user: str) -> None:
    program = """
        ATTACH, SEIZE, PEEK = 16, 0x4206, 1
        for request in (ATTACH, SEIZE, PEEK):
            attempt("ptrace", call, "ptrace", request, 1, 0, 0)
        buffer = ctypes.create_string_buffer(64)
        local = struct.pack("QQ", ctypes.addressof(buffer), 64)
        for address in (0x400000, 0x555555554000, 0x7FFFF7DD0000):
            remote = struct.pack("QQ", address, 64)
            attempt("read", call, "process_vm_readv", 1, local, 1, remote, 1, 0)
            attempt("write", call, "process_vm_writev", 1, local, 1, remote, 1, 0)
        pidfd = call("pidfd_open", 1, 0)
        for fd in range(20):
            attempt("descriptor", call, "pidfd_getfd", pidfd, fd, 0)
        attempt("compare", call, "kcmp", 1, os.getpid(), 0, 0, 0)
        attempt("pages", call, "move_pages", 1, 0, 0, 0, 0, 0)
        attempt("migrate", call, "migrate_pages", 1, 8, struct.pack("Q", 1), struct.pack("Q", 1))
    """
    result = await attack(box, program, user=user)
    assert "descriptor ->" not in result.stdout
    assert "read ->" not in result.stdout


async def test_leases_on_programs_and_files(box: LocalBox) -> None:
    """Whoever opens or starts a leased file waits for its holder: 45 s, unless told otherwise.

    Found by this test: a leased program blocked the supervisor, which waits until its child has started it.
    """
    program = """
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        for path in ("/dev/shm/leased", "/testbed/leased"):
            with open(path, "w") as file:
                file.write("#!/bin/sh\\necho ran\\n")
            os.chmod(path, 0o755)
            fd = os.open(path, os.O_RDONLY)
            for kind in (fcntl.F_WRLCK, fcntl.F_RDLCK):
                attempt("lease", fcntl.fcntl, fd, fcntl.F_SETLEASE, kind)
        if daemon():
            time.sleep(20)
            os._exit(0)
    """
    await attack(box, program)
    with anyio.fail_after(15):
        for path in ("/dev/shm/leased", "/testbed/leased"):
            assert (await box.exec([path])).stdout == "ran\n"
            assert b"ran" in await box.read(path)
            await box.write(path, b"new")


async def test_odd_files_for_reading_and_writing(box: LocalBox, tmp_path: Path) -> None:
    """Whatever lies where a file is expected: an error that says so, at once."""
    program = """
        os.chdir("/testbed")
        os.mkfifo("fifo")
        os.mkdir("folder")
        os.symlink("loop", "loop")
        os.symlink("fifo", "to-fifo")
        os.symlink("/dev/zero", "zero")
        os.symlink("/dev/full", "full")
        os.symlink("/dev/tty", "tty")
        os.symlink("/dev/ptmx", "terminal")
        os.symlink("x" * 4000, "far")
        socket.socket(socket.AF_UNIX).bind("socket")
        os.symlink("/usr/bin/env", "bound")
        open("file", "w").close()
        os.mkdir("many")
        for number in range(5000):
            open("many/%d" % number, "w").close()
    """
    await attack(box, program)
    local = tmp_path / "local"
    odd = (
        "fifo",
        "folder",
        "loop",
        "to-fifo",
        "zero",
        "full",
        "tty",
        "terminal",
        "far",
        "socket",
        "file/below",
        "many",
    )
    for name in odd:
        started = time.monotonic()
        for transfer in (box.read(name), box.download(name, local), box.write(name, b"x")):
            with pytest.raises(TransferFailed):
                await transfer
        assert time.monotonic() - started < 5, name
    with pytest.raises(TransferFailed):
        await box.write("bound", b"x")
    assert not local.exists()


async def test_links_into_the_supervisors_own_proc(box: LocalBox, tmp_path: Path) -> None:
    """The supervisor opens files for the SDK, and what /proc/self leads to depends on who opens it.

    Found by this test: a planted link made the SDK read the host's Python through /proc/self/exe, which is not mounted
    in the box, and the supervisor's memory map.
    """
    targets = [f"/proc/{who}/{name}" for who in ("self", "1", "thread-self") for name in ("exe", "maps", "mem", "auxv")]
    targets += ["/proc/self/environ", "/proc/self/oom_score_adj", "/proc/self/root/etc/passwd", "/proc/self/fd/2"]
    targets += [f"/proc/self/fd/{number}" for number in range(12)] + ["/proc/self/cwd/etc/passwd", "/proc/cmdline"]
    for target in targets:
        await box.exec(["ln", "-sfn", target, "/testbed/link"])
        with pytest.raises(TransferFailed):
            await box.read("link")
        with pytest.raises(TransferFailed):
            await box.download("link", tmp_path / "stolen")
        with pytest.raises(TransferFailed):
            await box.write("link", b"500")
    assert list(tmp_path.iterdir()) == []


async def test_descriptors_in_flight(make_box: MakeBox, box: LocalBox, local_provider: LocalProvider) -> None:
    """Each user may have so many descriptors within sockets; the supervisors and the SDK send such, too.

    Found by this test: one program kept every box of the user from being made, used and read.
    """
    program = """
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        fd, kept, sent = os.open("/dev/null", os.O_RDONLY), [], 0
        refused = 0
        while refused < 5:
            kept.append(socket.socketpair())
            kept[-1][0].setblocking(False)
            try:
                while True:
                    kept[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd] * 253))])
                    sent += 253
            except BlockingIOError:
                pass
            except OSError as error:
                refused += 1
        print("in flight:", sent, flush=True)
        if daemon():
            time.sleep(20)
            os._exit(0)
    """
    attacker = await make_box()
    await attack(attacker, program)
    for victim in (attacker, box, await make_box()):
        assert (await victim.exec(["echo", "fine"])).stdout == "fine\n"
        await victim.write("file", b"content")
        assert await victim.read("file") == b"content"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_listen, box)
        await anyio.sleep(0.3)
        await attacker.close()


async def _listen(box: LocalBox) -> None:
    """Its listener comes as a descriptor in flight: once there is room for one again."""
    _port, listener = await box.listen()
    listener.close()


async def test_watches_of_the_user_used_up(make_box: MakeBox, box: LocalBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each user may have so many epoll watches: an ordinary user's boxes can use up those of the SDK.

    Found by an attack that takes 5.5 million of them, and a gigabyte of memory; here, the kernel's answer is imitated.
    The SDK then failed with an error of its own, in all boxes, and could not even close them.
    """

    class Full:
        def register(self, _fd: int, _event: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None: ...

    async def none_left(_what: object) -> None:
        Full().register(0, 0)

    neighbour = await make_box()
    monkeypatch.setattr("anyio.wait_readable", none_left)
    monkeypatch.setattr("anyio.wait_writable", none_left)
    monkeypatch.setattr("select.epoll", Full)
    assert (await box.exec("cat; echo err >&2", stdin=b"fed")).stdout == "fed"
    assert (await box.exec("sleep 30", timeout_s=0.3)).status == "timeout"
    await box.write("file", b"x" * 1_000_000)
    assert len(await box.read("file")) == 1_000_000
    await neighbour.close()
    assert (await (await make_box()).exec(["/bin/true"])).ok
    monkeypatch.undo()


async def test_filling_the_process_table(make_box: MakeBox) -> None:
    """With no process left for it, a command cannot start: told as the command's end, and over with its cause."""
    box = await make_box(limits={"pids": 50})
    program = """
        if daemon():
            made = []
            try:
                while True:
                    pid = os.fork()
                    if pid == 0:
                        time.sleep(1.5)
                        os._exit(0)
            except OSError:
                time.sleep(1.5)
            os._exit(0)
    """
    await attack(box, program)
    await anyio.sleep(0.3)
    started = time.monotonic()
    result = await box.exec(["/bin/true"], timeout_s=10)
    assert (result.status, result.exit_code) in [("exited", 126), ("exited", 0)], result
    assert time.monotonic() - started < 5
    assert len(await box.processes()) > 40
    while await box.processes():
        await anyio.sleep(0.1)
    assert (await box.exec(["/bin/true"])).ok


async def test_a_storm_of_orphans(box: LocalBox) -> None:
    """Each of them is the supervisor's to collect."""
    program = """
        for _ in range(4):
            if daemon():
                end = time.monotonic() + 3
                while time.monotonic() < end:
                    if os.fork() == 0:
                        if os.fork() == 0:
                            os._exit(0)
                        os._exit(0)
                    os.wait()
                os._exit(0)
    """
    await attack(box, program)
    for _ in range(10):
        started = time.monotonic()
        assert (await box.exec(["/bin/true"], timeout_s=15)).ok
        assert time.monotonic() - started < 5


async def test_spinning_in_many_sessions(box: LocalBox) -> None:
    """The kernel shares the processor among sessions: sixty of them against the supervisor's one."""
    program = """
        for _ in range(60):
            if daemon():
                end = time.monotonic() + 2.5
                while time.monotonic() < end:
                    pass
                os._exit(0)
    """
    await attack(box, program)
    for _ in range(2):
        started = time.monotonic()
        assert (await box.exec(["/bin/true"], timeout_s=30)).ok
        assert time.monotonic() - started < 10
    result = await box.exec("sleep 30", timeout_s=0.5)
    assert (result.status, await box.status()) == ("timeout", "running")


async def test_huge_environments_and_arguments(box: LocalBox) -> None:
    """The supervisor reads those of all processes, to find out whose they are and to list them."""
    program = """
        big = {"K%06d" % number: "" for number in range(60000)}
        for _ in range(100):
            if os.fork() == 0:
                os.setsid()
                null = os.open("/dev/null", os.O_RDWR)
                for fd in range(3):
                    os.dup2(null, fd)
                os.execve("/bin/sleep", ["sleep", "60"] + ["0" * 1000] * 100, big)
    """
    await attack(box, program)
    with anyio.fail_after(10):
        while sum("sleep 60" in process.command for process in await box.processes()) < 100:
            pass
    started = time.monotonic()
    assert len(await box.processes()) == 100
    assert time.monotonic() - started < 5
    started = time.monotonic()
    result = await box.exec("setsid sleep 50 & sleep 50", timeout_s=0.5)
    assert result.status == "timeout"
    assert time.monotonic() - started < 8
    assert await box.status() == "running"


async def test_waiting_parents_and_a_pause(box: LocalBox, local_provider: LocalProvider) -> None:
    """A parent that waits for its child's start (vfork) cannot stop before it; it cannot run either.

    Found by this test: such a pair made every pause fail.
    """
    program = """
        os.mkfifo("/tmp/never")
        if daemon():
            never = [(os.POSIX_SPAWN_OPEN, 0, "/tmp/never", os.O_RDONLY, 0)]
            os.posix_spawn("/bin/true", ["true"], {}, file_actions=never)
            os._exit(0)
    """
    await attack(box, program)
    await anyio.sleep(0.5)
    assert len(await box.processes()) == 2
    await box.pause()
    snapshot = await local_provider.snapshot(box)
    await box.resume()
    await local_provider.delete_snapshot(snapshot.id)


async def test_finding_its_socket(box: LocalBox, user: str) -> None:
    """The control socket has no name, and no descriptor that leads to it can be had."""
    program = """
        print(open("/proc/net/unix").read())
        for line in open("/proc/net/unix").read().splitlines()[1:]:
            name = line.split()[7:]
            if name:
                attempt(name[0], socket.socket(socket.AF_UNIX).connect, name[0].replace("@", "\\0"))
        for fd in range(100):
            for base in ("/proc/1/fd/%d", "/proc/self/fd/%d"):
                attempt(base, socket.socket(socket.AF_UNIX).connect, base % fd)
    """
    result = await attack(box, program, user=user)
    assert "->" not in result.stdout.replace("-> '", "")
    assert "->" not in "".join(line for line in result.stdout.splitlines() if "fd" in line)


async def test_what_the_next_program_loads(box: LocalBox) -> None:
    """A library forced into every later program of the box (/etc/ld.so.preload) reaches neither supervisor nor SDK."""
    program = """
        with open("/etc/ld.so.preload", "w") as file:
            file.write("/testbed/evil.so\\n")
        with open("/testbed/evil.so", "w") as file:
            file.write("no library at all")
        os.makedirs("/home/agent/.local/lib/python3.11/site-packages", exist_ok=True)
        for name in ("sitecustomize", "usercustomize", "json", "subprocess"):
            for folder in ("/home/agent/.local/lib/python3.11/site-packages", "/testbed", "/"):
                with open("%s/%s.py" % (folder, name), "w") as file:
                    file.write("raise SystemExit(77)")
    """
    await attack(box, program)
    result = await box.exec(["/bin/echo", "still"], cwd="/")
    assert (result.status, result.exit_code, result.stdout) == ("exited", 0, "still\n")
    port, listener = await box.listen()
    with listener, pytest.raises(SandboxError):
        await box.listen(port)  # an error within the supervisor, where a late import would load what lies in the box
    assert first_process(box) > 0
