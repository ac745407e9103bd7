"""Our supervisor as the first process of a box that somebody else has made: a container's.

It is started by :mod:`swe_sdk.sandbox.runtime` with an interpreter of our own, before any program of the box runs.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys

from . import frames, kernel, seccomp, supervisor

GREETING = b"swe_sdk 1\n"
"""What the supervisor says first, on the connection that becomes its control socket."""


def main(arguments: list[str]) -> None:
    """Serve the SDK that listens at a unix socket, until it is gone.

    ``arguments``: the socket's path, the box's workdir and, for each thing to be done besides, a word: ``memory=BYTES``
    (watch over the memory, which no control group limits), ``host-network`` (the box shares the host's network).
    """
    path, workdir, *words = arguments
    control = _connect(path)
    try:
        serve = _get_ready(control, workdir, dict(word.partition("=")[::2] for word in words))
    except OSError as error:
        _say(control, {"ev": "failed", "error": str(error), "errno": error.errno})
        raise
    _say(control, {"ev": "ready"})
    serve()


def _connect(path: str) -> socket.socket:
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.connect(path)
    return control


def _get_ready(control: socket.socket, workdir: str, words: dict[str, str]) -> _Serve:
    os.chdir("/")
    os.umask(0o022)
    _forget_signal_settings()
    oom_score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    supervisor.warm_up()
    kernel.forbid_new_privileges()
    kernel.hide_from_debuggers()
    if "host-network" in words:
        kernel.shut_abstract_sockets_out()
    seccomp.install()
    _make(workdir)
    supervisor.forbid_imports()
    gc.collect()
    gc.freeze()
    memory_bytes = int(words["memory"]) if "memory" in words else None
    return supervisor.Supervisor(control, memory_bytes, oom_score).serve
