"""Our supervisor as the first process of a box that somebody else has made: a container's.

It is started by the interpreter of :mod:`swe_sdk.sandbox.runtime`, before any program of the box runs.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from . import disk, kernel, seccomp, supervisor

READY = b"+"
"""The first byte on the connection, which is then the control socket; or ``-`` and what went wrong."""
_NOTHING = "/.swe_sdk/no such program"


def main(path: str, *words: str) -> None:
    """Connect to the SDK, which listens at the unix socket ``path``, and serve it until it is gone; never returns.

    Words: ``memory=BYTES`` (watch over the memory, which nobody else limits), ``disk=BYTES`` (watch over what programs
    write), ``host-network`` (the box shares the host's network).
    """
    options = dict(word.partition("=")[::2] for word in words)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(path)
    try:
        box = _get_ready(control, options)
    except BaseException as error:
        control.sendall(b"-" + str(error).encode("utf-8", "replace"))
        raise
    control.sendall(READY)
    try:
        box.serve()
    except BaseException:  # noqa: BLE001 - the last word of a process that nobody waits for
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _get_ready(control: socket.socket, options: dict[str, str]) -> supervisor.Supervisor:
    oom_score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    close_the_box(host_network="host-network" in options)
    memory_bytes = int(options["memory"]) if "memory" in options else None
    disk_watch = disk.WatchOfChanges(int(options["disk"])) if "disk" in options else None
    return supervisor.Supervisor(control, memory_bytes, oom_score, disk_watch, is_watched=False)


def close_the_box(*, host_network: bool) -> None:
    """Take from this process, and all below it, what no program of a box may have; it loads no code from here on."""
    os.chdir("/")
    os.umask(0o022)
    _forget_signal_settings()
    kernel.forbid_new_privileges()
    kernel.hide_from_debuggers()
    if host_network:
        kernel.shut_abstract_sockets_out()
    # A program that does not exist: one of the box's own would run before the box is closed.
    supervisor.warm_up(_NOTHING)
    supervisor.hear_of_children()
    seccomp.install()
    supervisor.forbid_imports()
    gc.collect()
    gc.freeze()


def _forget_signal_settings() -> None:
    """What whoever started us ignores or blocks must not be ignored or blocked in the programs of the box."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
