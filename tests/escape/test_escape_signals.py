"""Attacks with signals: on the supervisor, on what it starts, and on terminals."""

from __future__ import annotations

import time

import anyio
import pytest

from swe_sdk.sandbox.providers.local.box import LocalBox
from tests.escape.world import attack, stat_field, survivor

pytestmark = pytest.mark.anyio


async def test_every_signal_to_the_supervisor(box: LocalBox, user: str) -> None:
    """By each of the calls that can send one, in every kind."""
    program = """
        pidfd = call("pidfd_open", 1, 0)
        for number in range(1, 65):
            for way in (
                lambda: os.kill(1, number),
                lambda: call("tgkill", 1, 1, number),
                lambda: call("pidfd_send_signal", pidfd, number, None, 0),
                lambda: call("pidfd_send_signal", pidfd, number, None, 1 << 2),
                lambda: call("rt_sigqueueinfo", 1, number, struct.pack("iii4xqq", number, 0, -1, 0, 0) + bytes(96)),
                lambda: call("rt_sigqueueinfo", 1, number, struct.pack("iii4xqq", number, 0, 0x80, 0, 0) + bytes(96)),
            ):
                try:
                    way()
                except OSError:
                    pass
        attempt("its group", os.killpg, 1, signal.SIGKILL)
    """
    await attack(box, program, user=user)


async def test_kill_everything(box: LocalBox, user: str) -> None:
    """The program ends itself too, at most: its own end is told as it was."""
    await box.exec("sleep 100 > /dev/null 2>&1 &")
    result = await attack(box, "os.kill(-1, signal.SIGKILL); print('survived')", user=user)
    assert result.stdout == "survived\n"
    with anyio.fail_after(5):
        while await box.processes():
            await anyio.sleep(0.01)
    result = await box.exec(["sh", "-c", "kill -9 0; echo survived"])
    assert (result.status, result.exit_code) == ("exited", -9)


async def test_a_flood_of_child_signals(box: LocalBox) -> None:
    program = """
        for _ in range(2):
            if daemon():
                end = time.monotonic() + 4
                while time.monotonic() < end:
                    for number in (signal.SIGCHLD, signal.SIGCONT, signal.SIGUSR1, signal.SIGRTMIN, signal.SIGURG):
                        os.kill(1, number)
                os._exit(0)
    """
    await attack(box, program)
    for _ in range(20):
        started = time.monotonic()
        assert (await box.exec(["/bin/true"], timeout_s=10)).ok
        assert time.monotonic() - started < 3


async def test_signals_that_descriptors_send(box: LocalBox) -> None:
    """F_SETOWN and F_SETSIG have the kernel itself send a signal, SIGKILL too, to a process of one's choice."""
    program = """
        F_SETSIG, F_SETOWN_EX = 10, 15
        for number in (0, signal.SIGKILL, signal.SIGSTOP, signal.SIGIO, signal.SIGSEGV, signal.SIGRTMIN):
            for owner in (1, -1):
                a, b = socket.socketpair()
                attempt("own", fcntl.fcntl, a, fcntl.F_SETOWN, owner)
                attempt("own", fcntl.fcntl, a, F_SETOWN_EX, struct.pack("ii", 1, 1))
                attempt("signal", fcntl.fcntl, a, F_SETSIG, number)
                attempt("async", fcntl.fcntl, a, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
                for _ in range(10):
                    b.send(b"x")
                b.close()
        server = socket.socket()
        server.bind(("127.0.0.1", 0))
        server.listen()
        a = socket.create_connection(server.getsockname())
        b, _ = server.accept()
        attempt("urgent", fcntl.fcntl, a, fcntl.F_SETOWN, 1)
        b.send(b"!", socket.MSG_OOB)
        notify = os.open("/tmp", os.O_RDONLY)
        attempt("dnotify", fcntl.fcntl, notify, fcntl.F_SETOWN, 1)
        attempt("dnotify", fcntl.fcntl, notify, F_SETSIG, signal.SIGKILL)
        attempt("dnotify", fcntl.fcntl, notify, fcntl.F_NOTIFY, fcntl.DN_CREATE | fcntl.DN_MULTISHOT)
        open("/tmp/new", "w").close()
    """
    await attack(box, program)


async def test_death_signals_of_odd_children(box: LocalBox) -> None:
    """Children that tell their end by SIGKILL, and are handed to the supervisor when their parent has gone."""
    program = """
        PARENT = 0x8000
        for flags in (signal.SIGKILL, signal.SIGSTOP, PARENT | signal.SIGKILL, PARENT):
            try:
                pid = call("clone", flags, 0, 0, 0, 0)
            except OSError as error:
                print(error)
                continue
            if pid == 0:
                time.sleep(0.2)
                os._exit(0)
    """
    await attack(box, program, may_die=True)
    await anyio.sleep(0.4)


async def test_stopping_what_the_supervisor_starts(box: LocalBox, user: str) -> None:
    """A child that is stopped between its birth and its program blocks the supervisor, which waits for it (vfork).

    Found by this test: the box hung for ever, and a hung box was a lost one, which earned a mask.
    """
    program = """
        if daemon():
            time.sleep(0.5)
            end = time.monotonic() + 3
            while time.monotonic() < end:
                try:
                    os.kill(-1, signal.SIGSTOP)
                except OSError:
                    pass
            os._exit(0)
    """
    await attack(box, program)
    await anyio.sleep(0.6)
    endings = []
    with anyio.fail_after(30):
        with anyio.move_on_after(2.5):
            while True:
                endings.append(await box.exec(["/bin/true"], user=user, timeout_s=0.5))
        await anyio.sleep(1)
    assert {ending.status for ending in endings} <= {"exited", "timeout"}, endings


async def test_killing_what_the_supervisor_starts(box: LocalBox) -> None:
    """Every program dies at once: its end is told as it was, and files go in and out, which takes no program."""
    program = """
        if daemon():
            end = time.monotonic() + 2
            while time.monotonic() < end:
                try:
                    os.kill(-1, signal.SIGKILL)
                except OSError:
                    pass
            os._exit(0)
    """
    await attack(box, program, may_die=True)
    for _ in range(5):
        result = await box.exec(["/bin/sleep", "1"], timeout_s=5)
        assert (result.status, result.exit_code) in [("exited", -9), ("exited", 0)]
        await box.write("file", b"content")
        assert await box.read("file") == b"content"
    await anyio.sleep(2)


async def test_terminals(box: LocalBox, user: str) -> None:
    """Job control, pushed-back input (TIOCSTI, TIOCLINUX) and hang-ups, on the box's own terminals and on others."""
    program = """
        TIOCLINUX = 0x541C
        pid, terminal = os.forkpty()
        if pid == 0:
            for number in (termios.TIOCSTI, TIOCLINUX):
                attempt("push back", fcntl.ioctl, 0, number, b"\\x02")
            attempt("in front", os.tcsetpgrp, 0, 1)
            attempt("hang up", call, "vhangup")
            time.sleep(0.2)
            os._exit(0)
        for key in (b"\\x1a", b"\\x03", b"\\x1c"):
            attempt("key", os.write, terminal, key)
        os.close(terminal)
        for path in ("/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0", "/dev/pts/0", "/dev/ptmx"):
            if attempt(path, os.open, path, os.O_RDWR | os.O_NONBLOCK):
                fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
                attempt("push back", fcntl.ioctl, fd, termios.TIOCSTI, b"x")
                attempt("steal", fcntl.ioctl, fd, termios.TIOCSCTTY, 1)
        for fd in range(3):
            attempt("streams", fcntl.ioctl, fd, termios.TIOCSTI, b"x")
            attempt("streams", fcntl.ioctl, fd, termios.TIOCSCTTY, 1)
    """
    result = await attack(box, program, user=user, may_die=True)  # its terminal may hang up
    pushed = [line for line in result.stdout.splitlines() if line.startswith(("push back ->", "streams ->"))]
    assert pushed == []


async def test_programs_have_no_terminal(box: LocalBox) -> None:
    """Seen from this machine: a session of its own, and no controlling terminal to push anything into."""
    await box.exec("sleep 5 > /dev/null 2>&1 &")
    pid = await survivor(box)
    assert stat_field(pid, 7) == "0"
    assert stat_field(pid, 6) != "0"
