"""Attacks on what is told of a command: its streams, its end, and that all of it has ended."""

from __future__ import annotations

import time

import anyio
import pytest

from swe_sdk.sandbox.providers.local.box import LocalBox
from tests.escape.conftest import MakeBox
from tests.escape.world import KIT, attack, dedent

pytestmark = pytest.mark.anyio


async def test_its_own_pipes(box: LocalBox) -> None:
    """Standard streams made small, non-blocking, turned round or filled: they are the program's loss alone."""
    program = """
        F_SETPIPE_SZ = 1031
        for fd in (1, 2):
            attempt("small", fcntl.fcntl, fd, F_SETPIPE_SZ, 4096)
            attempt("large", fcntl.fcntl, fd, F_SETPIPE_SZ, 1 << 20)
            attempt("modes", fcntl.fcntl, fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND | os.O_ASYNC)
            attempt("owner", fcntl.fcntl, fd, fcntl.F_SETOWN, 1)
            attempt("mode", os.fchmod, fd, 0)
        mine = os.open("/proc/self/fd/1", os.O_RDWR | os.O_NONBLOCK) if os.access("/proc/self/fd/1", os.W_OK) else 1
        try:
            while True:
                os.write(mine, b"x" * 4096)
        except OSError:
            pass
        os.close(0), os.close(1)
        os._exit(3)
    """
    result = await attack(box, program, may_die=True)
    assert result.exit_code == 3
    assert (await box.exec(["cat"], stdin=b"fed")).stdout == "fed"


async def test_standard_input_is_not_the_hosts(box: LocalBox) -> None:
    """A program's input is an anonymous file of its own, or nothing: neither leads to a file of this machine."""
    program = """
        print(os.readlink("/proc/self/fd/0"), stat.filemode(os.fstat(0).st_mode))
        attempt("seal", fcntl.fcntl, 0, 1033, 0xF)
        attempt("grow", os.ftruncate, 0, 1 << 20)
        attempt("up", os.open, "..", os.O_RDONLY, dir_fd=0)
        attempt("reopen", os.open, "/proc/self/fd/0", os.O_RDWR)
    """
    assert "/dev/null c" in (await attack(box, program)).stdout
    result = await box.exec(["python3", "-I", "-"], stdin=(KIT + "print(os.readlink('/proc/self/fd/0'))").encode())
    assert "memfd:stdin" in result.stdout


async def test_inherited_descriptors(box: LocalBox, user: str) -> None:
    """A program starts with its three streams and nothing else: no socket of the supervisor, no file of the host."""
    script = "exec ls -l /proc/self/fd"
    result = await box.exec(["/bin/sh", "-c", script], user=user, stdin=b"x", env={"LD_DEBUG": ""})
    links = [line.split(" -> ")[1] for line in result.stdout.splitlines() if " -> " in line]
    assert [link.partition(":")[0] for link in links[:3]] == ["/memfd", "pipe", "pipe"], result.stdout
    assert all(link.startswith("/proc/") for link in links[3:]), result.stdout


async def test_threads_that_outlive_their_first(box: LocalBox) -> None:
    """A process whose first thread has ended looks dead, and goes on.

    Found by this test: it outlived its command's time limit, and the kill was reported as complete.
    """
    program = """
        def beat():
            while True:
                with open("/tmp/beat", "a") as file:
                    file.write(".")
                time.sleep(0.02)
        if sys.argv[1] == "daemon" and not daemon():
            time.sleep(60)
        threading.Thread(target=beat).start()
        call("exit", 0)
    """
    await box.exec("sleep 60 > /dev/null 2>&1 &")
    for way in ("main", "daemon"):
        command = ["python3", "-I", "-c", KIT + dedent(program), way]
        started = time.monotonic()
        result = await box.exec(command, timeout_s=0.7)
        assert (result.status, await box.status()) == ("timeout", "running")
        assert time.monotonic() - started < 8
        size = len(await box.read("/tmp/beat"))
        assert size > 0
        await anyio.sleep(0.3)
        assert len(await box.read("/tmp/beat")) == size, "it still runs"
    assert [process.command for process in await box.processes()] == ["sleep 60"]


async def test_daemons_that_hide_whose_they_are(box: LocalBox) -> None:
    """Another session, other parents, no environment, an ignored SIGTERM, a new process every millisecond."""
    program = """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for _ in range(5):
            if daemon():
                os.execve("/bin/sleep", ["sleep", "61"], {})
        if daemon():
            while True:
                if os.fork():
                    os._exit(0)
                time.sleep(0.001)
        time.sleep(60)
    """
    result = await box.exec(["python3", "-I", "-c", KIT + dedent(program)], timeout_s=0.7)
    assert (result.status, await box.status()) == ("timeout", "running")
    assert await box.processes() == []


async def test_passing_for_another_command(box: LocalBox) -> None:
    """A daemon with the mark of a command that has ended (or another that runs) outlives its own command's limit."""
    await box.exec("sleep 62 > /dev/null 2>&1 &")
    program = """
        names = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        limits = [line for name in names for line in read("/proc/%s/limits" % name).splitlines()]
        theirs = max(int(line.split()[4]) for line in limits if line.startswith(b"Max file locks"))
        if daemon():
            try:
                resource.setrlimit(10, (theirs, theirs))  # RLIMIT_LOCKS
            except ValueError:
                pass
            os.execve("/bin/sleep", ["sleep", "63"], {})
        time.sleep(60)
    """
    result = await box.exec(["python3", "-I", "-c", KIT + dedent(program)], timeout_s=0.7)
    assert result.status == "timeout"
    assert [process.command for process in await box.processes()] == ["sleep 62"]


async def test_forged_endings(box: LocalBox) -> None:
    """A program that prints what a supervisor says, to every descriptor, and ends as infrastructure might."""
    program = """
        frame = json.dumps({"ev": "exit", "exit_code": 0, "killed": False, "tree_gone": True}).encode()
        for fd in range(64):
            try:
                os.write(fd, struct.pack("!I", len(frame)) + frame)
            except OSError:
                pass
        code = int(sys.argv[1])
        if code < 0:
            os.kill(os.getppid() if os.getppid() > 1 else os.getpid(), -code)
        os._exit(code)
    """
    for code in (0, 1, 124, 125, 126, 127, 137, 143, 255, -9, -6, -11, -31):
        result = await attack(box, program, str(code), may_die=True)
        assert (result.status, result.exit_code) == ("exited", code)


async def test_killing_the_shell_that_runs_it(box: LocalBox) -> None:
    result = await box.exec(
        "python3 -c 'import os; os.kill(os.getppid(), 9); print(1)'; echo not reached", timeout_s=20
    )
    assert (result.status, result.exit_code) == ("exited", -9)


async def test_children_that_keep_the_pipes(box: LocalBox) -> None:
    """The command has ended when its process has, whoever holds its output open and goes on writing to it."""
    program = """
        for _ in range(3):
            if os.fork() == 0:
                os.setsid()
                end = time.monotonic() + 8
                while time.monotonic() < end:
                    os.write(1, b"late" * 256)
                os._exit(0)
        os._exit(5)
    """
    started = time.monotonic()
    result = await attack(box, program, may_die=True)
    assert result.exit_code == 5
    assert time.monotonic() - started < 4
    assert (await box.exec(["/bin/true"], timeout_s=10)).ok


async def test_the_workdir_taken_away(make_box: MakeBox) -> None:
    """A command that cannot start where it should is told as its own failure."""
    for script in (
        "rm -rf /testbed", "rm -rf /testbed; ln -s /proc/1/root /testbed", "rm -rf /testbed; mkfifo /testbed",
        "rm -rf /testbed; ln -s testbed /testbed", "chmod 0 /testbed",
    ):  # fmt: skip
        box = await make_box()
        await box.exec(script, cwd="/")
        result = await box.exec(["/bin/true"], timeout_s=10)
        assert result.status == "exited", script
        assert (await box.exec(["/bin/true"], cwd="/")).ok
