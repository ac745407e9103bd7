"""Our supervisor in a box of a system with which this machine shares nothing but its network.

It is started once in a box, by a command of the system, and leaves that command's session. From then on a program
beside it, ``ring``, brings calls in: JSON with an ``id``. The reply to each is a file, whole or not there, and stays
until the caller says that it has it; a command goes on whether anybody is connected or not. So no break of a
connection loses a result. The lines that ring are::

    ended FILE      the reply is in FILE: JSON, a newline, and the bytes that go with it
    told JSON       the same where no file could be written
    taken           the call has arrived
    more            a live stream has grown
    unknown         there is no such call to follow

Processes that do not descend from it (the system's own) are nobody's to list, stop or kill.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterable

from . import files, frames, inside, kernel, processes, supervisor
from .calls import Command, Connection
from .operations import signal_all
from .recording import Answer, Recording, open_once
from .ring import CALL

FAST = "/dev/shm"
"""Where replies go while there is room: memory, so that they get into no snapshot."""
_STOP_S = 5.0
_LEFTOVERS_SHARE = 4
"""As for any supervisor: the part of the descriptors that output of background processes may take."""
_everyone = processes.living


class Station(supervisor.Supervisor):
    """Serves a listener instead of a connection to the SDK, and keeps what commands print."""

    def __init__(self, listener: socket.socket, places: tuple[str, ...], oom_score: int) -> None:
        """``places``: directories for replies, the last of which is on the disk of the box."""
        super().__init__(listener, None, oom_score, is_watched=False)
        self._places = places
        self._calls: dict[str, Answer] = {}
        self._recorded: dict[int, Recording] = {}
        """By the descriptors that are read for them."""
        self._refused: set[str] = set()
        """Commands that were given up before they came."""
        self._operations |= {"stop": self._stop, "pause": _pause, "resume": _resume, "facts": _tell_facts}

    def _accept(self) -> bool:
        try:
            self._add(self._control.accept()[0])
        except OSError:
            pass  # whoever came has left again
        return True

    def _handle(self, connection: Connection, message: frames.Message) -> None:
        for done in message.get("done", ()):
            if done in self._calls and self._calls[done].line:
                self._calls.pop(done).forget()
        name = str(message["id"])
        if message["op"] == "follow":
            self._follow(connection, name)
            return
        answer = Recording(name, self._places, message) if message["op"] == "exec" else Answer(name, self._places)
        self._calls[name] = answer
        answer.follow(connection)
        answer.ring(b"taken\n")
        if name in self._refused:
            answer.reply({"ev": "refused"})
            return
        try:
            self._bring_file(answer, message)
        except OSError as error:
            answer.reply({"ev": "error", "error": str(error), "errno": error.errno})
            return
        super()._handle(answer, message)

    def _follow(self, connection: Connection, name: str) -> None:
        if name in self._calls:
            connection.sock.send(b"taken\n")
            self._calls[name].follow(connection)
        else:
            connection.sock.send(b"unknown\n")
            connection.sock.shutdown(socket.SHUT_WR)

    def _bring_file(self, answer: Answer, message: frames.Message) -> None:
        """The supervisor copies between a file of the box and a descriptor that comes with the call: here, a file."""
        if message["op"] == "read":
            answer.staged = f"{self._places[-1]}/{answer.id}.data"
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            answer.decoder.feed(b"", [os.open(answer.staged, flags, 0o600)])
        elif message["op"] == "write":
            answer.decoder.feed(b"", [open_once(message["file"])])

    # -- commands ---------------------------------------------------------------------------------------------------

    def _exec(self, connection: Connection, message: frames.Message) -> None:
        assert isinstance(connection, Recording)
        connection.decoder.feed(b"", connection.begin(message))
        super()._exec(connection, message)
        for reader in connection.readers:
            if connection.line:
                os.close(reader)  # it could not be started
            else:
                self._leftovers[reader] = None
                self._recorded[reader] = connection
                self._poll.register(reader)

    def _stop(self, connection: Connection, message: frames.Message) -> None:
        target = self._calls.get(str(message["target"]))
        if target is not None and target.command is not None and target.command.pid in self._commands:
            self._begin_kill(target.command, grace_s=float(message["grace_s"]))
        elif target is None:
            self._refused.add(str(message["target"]))
        connection.reply({"ev": "ok"})

    def _discard_output(self, fd: int) -> None:
        recording = self._recorded.get(fd)
        if recording is None:
            super()._discard_output(fd)
        elif recording.read(fd) == 0:
            self._drop_output(fd)

    def _drop_output(self, fd: int) -> None:
        recording = self._recorded.pop(fd, None)
        if recording is not None:
            recording.drop(fd)
        super()._drop_output(fd)

    def _end(self, command: Command, *, killed: bool, tree_gone: bool) -> None:
        super()._end(command, killed=killed, tree_gone=tree_gone)
        assert isinstance(command.connection, Recording)
        for reader in command.connection.readers:
            self._recorded.pop(reader, None)  # what comes now is of nobody's interest
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _LEFTOVERS_SHARE
        for reader in [fd for fd in self._leftovers if fd not in self._recorded][:-most]:
            self._drop_output(reader)

    def _tree(self, command: Command) -> tuple[list[int], bool]:
        """There are always others: a signal to everybody would end the system's own programs."""
        return super()._tree(command)[0], True


def _pause(connection: Connection, message: frames.Message) -> None:
    """Stop all programs, one after the other, until none is left that runs."""
    deadline = time.monotonic() + _STOP_S
    while not processes.all_stopped(alive := processes.living()):
        if time.monotonic() > deadline:
            raise TimeoutError("processes are still running after SIGSTOP")
        signal_all(list(alive), signal.SIGSTOP)
        time.sleep(0.0005)
    connection.reply({"ev": "ok"})


def _resume(connection: Connection, message: frames.Message) -> None:
    # Children first: a job-control shell that wakes before its child sees the child stopped, and drops the job.
    signal_all(sorted(processes.living(), reverse=True), signal.SIGCONT)
    connection.reply({"ev": "ok"})


def _tell_facts(connection: Connection, message: frames.Message) -> None:
    """What a caller must know who has not started it."""
    connection.reply(facts())


def facts() -> frames.Message:
    """The environment that programs inherit, whose they are, and whether lines of them can be for bash."""
    return {"ev": "ok", "env": dict(os.environ), "uid": os.geteuid(), "bash": os.access("/bin/bash", os.X_OK)}


def descendants() -> dict[int, processes.ProcessInfo]:
    """The living processes that descend from this one, to which their orphans are given."""
    everyone = _everyone()
    children: dict[int, list[int]] = {}
    for info in everyone.values():
        children.setdefault(info.ppid, []).append(info.pid)
    found: dict[int, processes.ProcessInfo] = {}
    todo = [os.getpid()]
    while todo:
        for pid in children.get(todo.pop(), ()):
            found[pid] = everyone[pid]
            todo.append(pid)
    return found


def main(place: str) -> None:
    """Start a station in the directory ``place``, and print where the first reply is: the facts.

    It returns in the process that was started for it; the station itself goes on.
    """
    workdir = json.loads(os.environ.pop(CALL))["workdir"]
    places = _make_places(place)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    listener.bind(f"{place}/socket")
    listener.listen(128)
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.write(1, os.read(reader, 1 << 16) or b"failed: it died\n")
    else:
        _serve(listener, places, workdir, writer)


def _serve(listener: socket.socket, places: tuple[str, ...], workdir: str, writer: int) -> None:
    """The station's own process: tell ``writer`` how it begins, and then serve; never returns."""
    try:
        _leave(places[-1], keep=(listener.fileno(), writer))
        _make_directory(workdir)
        station = _get_ready(listener, places)
        first = Answer("facts", places)
        first.reply(facts())
        os.write(writer, first.line)
        os.close(writer)
    except BaseException as error:
        os.write(writer, f"failed: {error}\n".encode("ascii", "replace"))
        raise
    try:
        station.serve()
    except BaseException:  # noqa: BLE001 - the last word of a process that nobody waits for
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _make_directory(path: str) -> None:
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        files.make_directories(root, path)
    except OSError:
        pass  # a file is in its place: commands will say so
    finally:
        os.close(root)


def _make_places(place: str) -> tuple[str, ...]:
    """Those of this box. What a snapshot has brought of another box goes."""
    home, _, name = place.rpartition("/")
    os.makedirs(home, 0o700, exist_ok=True)
    for other in os.listdir(home):
        if other != name:
            shutil.rmtree(f"{home}/{other}", ignore_errors=True)
    os.makedirs(place, 0o700, exist_ok=True)
    fast = f"{FAST}/.swe_sdk-{name}"
    try:
        os.mkdir(fast, 0o700)
    except OSError:
        return (place,)
    return fast, place


def _leave(place: str, *, keep: Iterable[int]) -> None:
    """The session, the streams and the descriptors of the command that has started us."""
    os.setsid()
    kept = {*keep, 0, 1, 2}
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd not in kept:
            try:
                os.close(fd)
            except OSError:
                pass  # it was that of the list itself
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(f"{place}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream, fd in enumerate((nothing, nothing, log)):
        os.dup2(fd, stream)


def _get_ready(listener: socket.socket, places: tuple[str, ...]) -> Station:
    oom_score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    kernel.adopt_orphans()
    processes.living = descendants  # for the whole of this process: it has no business with others
    inside.close_the_box(host_network=False)
    return Station(listener, places, oom_score)
