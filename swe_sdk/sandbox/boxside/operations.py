"""What a supervisor does at once, whatever runs in its box: list, stop and continue processes, open a port."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable

from . import frames, processes
from .calls import Connection

Operation = Callable[[Connection, frames.Message], None]


def _list_processes(connection: Connection, _message: frames.Message) -> None:
    alive = processes.living()
    found = [
        {
            "pid": info.pid,
            "ppid": info.ppid,
            "state": info.state,
            "command": processes.command_line(info.pid, len(alive)) or info.command,
        }
        for info in alive.values()
    ]
    connection.reply({"ev": "ok", "processes": found})


def _pause(connection: Connection, message: frames.Message) -> None:
    deadline = time.monotonic() + float(message["timeout_s"])
    signal_everything(signal.SIGSTOP)
    while not processes.all_stopped(processes.living()):
        if time.monotonic() > deadline:
            raise TimeoutError("processes are still running after SIGSTOP")
        time.sleep(0.0005)
    connection.reply({"ev": "ok"})


def _resume(connection: Connection, _message: frames.Message) -> None:
    # Children first: a job-control shell that wakes before its child sees the child stopped, and drops the job.
    signal_all(sorted(processes.living(), reverse=True), signal.SIGCONT)
    signal_everything(signal.SIGCONT)
    connection.reply({"ev": "ok"})


def _listen(connection: Connection, message: frames.Message) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(message["port"])))
        listener.listen(128)
        connection.reply({"ev": "ok", "port": listener.getsockname()[1]}, (listener.fileno(),))


def signal_all(pids: list[int], number: int) -> None:
    """Signal these processes, as far as they are there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def signal_everything(number: int) -> None:
    """Signal every process of the box but this one, in one step."""
    try:
        os.kill(-1, number)
    except (ProcessLookupError, PermissionError):
        pass


OPERATIONS: dict[str, Operation] = {
    "processes": _list_processes,
    "pause": _pause,
    "resume": _resume,
    "listen": _listen,
}
