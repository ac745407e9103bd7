"""Process 1 of a box: runs commands, kills their whole trees, opens files, lists, stops and continues processes.

It is one poll loop. Descriptors of a command's streams come with the request, so output never passes through here.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import sys
import time

from . import disk, frames, memory, processes
from .calls import Command, Connection
from .operations import OPERATIONS, Operation, signal_all, signal_everything
from .spawning import Birth, begin, spawn
from .transfers import Transfers

_WATCH_S = 0.1
"""How often the memory of the programs is looked at, where no control group limits it."""
_TICK_S = 0.005
"""How often a kill in progress looks whether anything is left."""
_KILL_CAP_S = 10.0
"""How long a kill may go on before it is given up; the SDK then discards the box."""
_LEFTOVERS_SHARE = 4
"""The part of this process's descriptors that the output of background processes may take; the oldest goes first."""
WAKEUP_BYTES = 512
"""Of what signals have left to be read; where there is more, that wakes us once more."""
_MARKS = 1 << 62
"""Commands are numbered downwards from here."""


class Supervisor:
    """The loop over a control socket; returns when the SDK is gone."""

    def __init__(
        self,
        control: socket.socket,
        memory_bytes: int | None,
        oom_score: int,
        disk_watch: disk.Watch | None = None,
        *,
        is_watched: bool = True,
    ) -> None:
        """``is_watched``: whether somebody outside frees it where a program has stopped a child that it waits for."""
        self._is_watched = is_watched
        self._control = control
        self._disk_watch = disk_watch
        self._memory_bytes = memory_bytes
        self._next_look = 0.0
        self._oom_score = oom_score
        self._transfers = Transfers(disk_watch)
        self._leftovers: dict[int, None] = {}
        """Output of background processes whose command has ended, read and thrown away."""
        self._connections: dict[int, Connection] = {}
        self._commands: dict[int, Command] = {}
        """Commands that have not ended, by the pid of their first process."""
        self._finished: dict[int, int] = {}
        """Marks of ended commands that may have left processes behind, by the pid of their first process."""
        self._mark = _highest_mark()
        self._operations: dict[str, Operation] = {
            "exec": self._exec,
            "adopt": self._adopt,
            "kill": self._kill,
            **self._transfers.operations,
            **OPERATIONS,
        }
        self._poll = select.poll()
        self._wakeup = _wake_on_child_exit()

    def serve(self, *connections: socket.socket) -> None:
        """Run until the control socket ends. ``connections``: those that are there from the start."""
        for sock in connections:
            self._add(sock)
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)
        while True:
            for fd, _events in self._poll.poll(self._patience_ms()):
                if fd == self._control.fileno():
                    if not self._accept():
                        return
                elif fd == self._wakeup:
                    os.read(fd, WAKEUP_BYTES)
                    self._reap()
                elif fd in self._leftovers:
                    self._discard_output(fd)
                elif fd in self._connections:  # an event before it in this round may have ended it
                    self._serve_connection(self._connections[fd])
            self._transfers.step()
            for command in list(self._commands.values()):
                if command.is_dying:
                    self._kill_step(command)
            if self._memory_bytes is not None and time.monotonic() >= self._next_look:
                self._look_at_memory(self._memory_bytes)
            if self._disk_watch is not None and self._disk_watch.patience_s == 0:
                self._look_at_disk(self._disk_watch)

    def _patience_ms(self) -> float | None:
        """How long to wait for the next event: for ever where nothing is going on."""
        if self._transfers:
            return 0.0
        if any(command.is_dying for command in self._commands.values()):
            return _TICK_S * 1000
        if not (self._commands or self._finished):
            return 0.0 if self._disk_watch is not None and self._disk_watch.is_settling else None
        patience_s = [_WATCH_S] if self._memory_bytes is not None else []
        if self._disk_watch is not None:
            patience_s.append(self._disk_watch.patience_s)
        return min(patience_s) * 1000 if patience_s else None

    def _accept(self) -> bool:
        try:
            data, fds = frames.receive(self._control, 1)
        except OSError:
            return False
        if not data:
            return False
        for fd in fds:
            self._add(socket.socket(fileno=fd))
        return True

    def _add(self, sock: socket.socket) -> None:
        self._connections[sock.fileno()] = Connection(sock)
        self._poll.register(sock, select.POLLIN)

    def _serve_connection(self, connection: Connection) -> None:
        try:
            data, fds = frames.receive(connection.sock, 1 << 16)
            connection.decoder.feed(data, fds)
            while (message := connection.decoder.next()) is not None:
                self._handle(connection, message)
        except BlockingIOError:
            return
        except (OSError, ValueError, frames.FrameError):
            data = b""
        if not data:
            self._hang_up(connection)

    def _hang_up(self, connection: Connection) -> None:
        """The caller is gone: its command, if it still runs, is killed at once."""
        self._forget(connection)
        self._transfers.give_up(connection)
        if connection.command is not None and connection.command.exit is None:
            self._begin_kill(connection.command, grace_s=0.0)

    def _forget(self, connection: Connection) -> None:
        fd = connection.sock.fileno()
        if self._connections.pop(fd, None) is not None:
            self._poll.unregister(fd)
            connection.close()

    def _handle(self, connection: Connection, message: frames.Message) -> None:
        operation = self._operations.get(str(message.get("op")))
        if operation is None:
            connection.reply({"ev": "error", "error": f"unknown operation {message.get('op')!r}"})
            return
        try:
            operation(connection, message)
        except Exception as error:  # noqa: BLE001 - one request that cannot be served must not end the whole box
            connection.reply({"ev": "error", "error": str(error), "errno": getattr(error, "errno", None)})

    # -- commands ---------------------------------------------------------------------------------------------------

    def _exec(self, connection: Connection, message: frames.Message) -> None:
        fds = connection.decoder.take_fds()
        try:
            pid, birth = self._spawn_first_victim(message, fds)
        except (OSError, ValueError) as error:
            connection.reply(_unstartable(error))
            return
        finally:
            for fd in fds:
                os.close(fd)
        command = Command(connection, self._mark, pid, birth)
        connection.command = command
        self._commands[pid] = command
        self._finished.pop(pid, None)

    def _spawn_first_victim(self, message: frames.Message, fds: list[int]) -> tuple[int, Birth | None]:
        """Start a marked program such that the kernel, when memory runs out, takes it and not its supervisor."""
        self._mark -= 1
        resource.setrlimit(processes.RLIMIT_MARK, (self._mark, self._mark))
        os.pwrite(self._oom_score, b"500", 0)
        try:
            if self._is_watched or _has_no_children():
                return spawn(message, fds), None
            child = begin(message, fds, by_vfork=False)
            return child.pid, child
        finally:
            os.pwrite(self._oom_score, b"0", 0)

    def _adopt(self, connection: Connection, _message: frames.Message) -> None:
        for fd in connection.decoder.take_fds():
            self._leftovers[fd] = None
            self._poll.register(fd, select.POLLIN)
        while len(self._leftovers) > resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _LEFTOVERS_SHARE:
            self._drop_output(next(iter(self._leftovers)))

    def _discard_output(self, fd: int) -> None:
        try:
            is_over = not os.read(fd, 1 << 16)
        except BlockingIOError:
            return
        if is_over:
            self._drop_output(fd)

    def _drop_output(self, fd: int) -> None:
        self._poll.unregister(fd)
        del self._leftovers[fd]
        os.close(fd)

    def _kill(self, connection: Connection, message: frames.Message) -> None:
        if connection.command is not None and connection.command.pid in self._commands:
            self._begin_kill(connection.command, grace_s=float(message["grace_s"]))

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            command = self._commands.get(pid)
            if command is not None and command.exit is None:
                command.exit = {
                    "exit_code": os.waitstatus_to_exitcode(status),
                    "user_s": usage.ru_utime,
                    "system_s": usage.ru_stime,
                    "max_rss_kib": usage.ru_maxrss,
                }
                if not command.is_dying:
                    self._end(command, killed=False, tree_gone=True)

    def _begin_kill(self, command: Command, *, grace_s: float) -> None:
        now = time.monotonic()
        if command.kill_after is None:
            command.give_up = now + grace_s + _KILL_CAP_S
            if grace_s > 0:
                self._signal_tree(command, signal.SIGTERM)
        command.kill_after = now + grace_s

    def _kill_step(self, command: Command) -> None:
        """One look at a command that must die: done, still in its grace, killed again, or given up."""
        self._reap()
        now = time.monotonic()
        members, others = self._tree(command)
        if not members and command.exit is not None:
            self._end(command, killed=True, tree_gone=True)
        elif now > command.give_up:
            self._end(command, killed=True, tree_gone=False)
        elif command.kill_after is not None and now >= command.kill_after:
            if others:
                signal_all(members, signal.SIGSTOP)  # what is stopped cannot fork away from the kill below
                signal_all(members, signal.SIGKILL)
            else:
                signal_everything(signal.SIGKILL)  # atomic against fork

    def _signal_tree(self, command: Command, number: int) -> None:
        members, _others = self._tree(command)
        signal_all(members, number)

    def _tree(self, command: Command) -> tuple[list[int], bool]:
        """The living processes of a command, and whether others live too.

        A process that belongs to no command (it left its session and its parents, and lowered its mark) counts as one
        of every command that is killed: better one stray daemon too few than a runaway program left.
        """
        alive = processes.living()
        mains = {**self._finished, **{pid: running.mark for pid, running in self._commands.items()}}
        owner = processes.owners(alive, mains, set(mains.values()))
        members = [pid for pid in alive if owner.get(pid, command.mark) == command.mark]
        self._prune_finished(alive, owner)
        return members, len(members) < len(alive)

    def _prune_finished(self, alive: dict[int, processes.ProcessInfo], owner: dict[int, int]) -> None:
        needed = set(owner.values())
        numbers = {number for info in alive.values() for number in (info.group, info.session)}
        self._finished = {pid: mark for pid, mark in self._finished.items() if mark in needed or pid in numbers}

    def _look_at_memory(self, limit: int) -> None:
        """Kill the command that holds the most, where all together hold too much."""
        self._next_look = time.monotonic() + _WATCH_S
        alive = processes.living()
        if not alive:
            self._finished.clear()
            return
        total, largest = memory.usage(alive)
        if total <= limit:
            return
        command = self._owner_of(largest, alive)
        if command is None:
            signal_all([largest], signal.SIGKILL)  # left behind by a command that has ended
        else:
            command.out_of_memory = True
            self._begin_kill(command, grace_s=0.0)

    def _look_at_disk(self, watch: disk.Watch) -> None:
        """End all programs where they have written too much; which of them did, nobody knows."""
        alive = processes.living()
        if not alive:
            self._finished.clear()
            if not watch.is_settling:
                return
        if watch.look(alive):
            for command in self._commands.values():
                command.over_disk_limit = True
                self._begin_kill(command, grace_s=0.0)
            signal_everything(signal.SIGKILL)

    def _owner_of(self, pid: int, alive: dict[int, processes.ProcessInfo]) -> Command | None:
        mains = {number: command.mark for number, command in self._commands.items()}
        mark = processes.owners(alive, mains, set(mains.values())).get(pid)
        return next((command for command in self._commands.values() if command.mark == mark), None)

    def _end(self, command: Command, *, killed: bool, tree_gone: bool) -> None:
        del self._commands[command.pid]
        failure = command.birth.failure() if command.birth and command.exit else None
        if failure is not None:
            command.connection.reply(_unstartable(failure))
            return
        if not killed:
            self._finished[command.pid] = command.mark
            if len(self._finished) > 1000:
                self._tree(command)  # prunes
        ending = command.exit or {"exit_code": None}
        outcome = {
            "killed": killed,
            "tree_gone": tree_gone,
            "out_of_memory": command.out_of_memory,
            "over_disk_limit": command.over_disk_limit,
        }
        command.connection.reply({"ev": "exit", **outcome, **ending})


def _has_no_children() -> bool:
    """Whether nobody is there who could stop a child before it has become a program: all orphans are process 1's."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _unstartable(error: Exception) -> frames.Message:
    return {"ev": "unstartable", "error": str(error), "errno": getattr(error, "errno", None)}


def _highest_mark() -> int:
    _soft, hard = resource.getrlimit(processes.RLIMIT_MARK)
    return _MARKS if hard == resource.RLIM_INFINITY else min(hard, _MARKS)


def _wake_on_child_exit() -> int:
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def hear_of_children() -> None:
    """Have the end of a child wake whoever waits for something else; see ``signal.set_wakeup_fd``."""
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)


def warm_up(program: str = "true") -> None:
    """Do everything once that would import or allocate lazily, before the box's own files are the only ones left."""
    message: frames.Message = {"argv": [program], "cwd": "/", "env": [f"PATH={os.defpath}"]}
    with open(os.devnull, "rb") as nothing:
        try:
            os.waitpid(spawn(message, [nothing.fileno(), 2, 2]), 0)
        except FileNotFoundError:
            pass  # there may be no programs at all here
    processes.living()
    decoder = frames.Decoder()
    decoder.feed(frames.encode({"text": "\udcff"}))
    decoder.next()


def forbid_imports() -> None:
    """A late import would load code from the box's file system into this process."""
    sys.meta_path.clear()
    sys.path.clear()
    sys.path_hooks.clear()
