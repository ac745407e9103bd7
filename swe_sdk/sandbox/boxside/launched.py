"""Our supervisor as the first process of a box that bubblewrap has made, see ``launcher``."""

from __future__ import annotations

import json
import os
import socket
import sys

from . import disk, frames, inside, root, supervisor


def main(text: str) -> None:
    """Serve the descriptors that came with it; never returns. ``text`` is JSON, from ``launcher._command``."""
    options = json.loads(text)
    control, connection, outside = (socket.socket(fileno=fd) for fd in options["fds"])
    for sock in (control, connection):
        sock.set_inheritable(False)
    try:
        box = _get_ready(control, outside, options)
        for name, limit in options["rlimits"].items():
            root.limit(name, limit)
        frames.send_blocking(connection, frames.READY)
        for stream in (1, 2):
            os.dup2(options["log"], stream)
        os.close(options["log"])
    except OSError as error:
        frames.send_blocking(connection, frames.failed(error))
        os._exit(1)
    try:
        box.serve(connection)
    except BaseException:  # noqa: BLE001 - the last word of a process that nobody waits for
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _get_ready(control: socket.socket, outside: socket.socket, options: dict[str, object]) -> supervisor.Supervisor:
    with outside:
        _data, fds = frames.receive(outside, 1)
    if not fds:
        raise OSError("bubblewrap's parent died")
    (oom_score,) = fds
    watch = _disk_watch(options["disk_bytes"])
    memory_bytes = options["memory_bytes"]
    inside.close_the_box(host_network=bool(options["host_network"]))
    root.make_workdir(str(options["workdir"]))
    assert memory_bytes is None or isinstance(memory_bytes, int)
    return supervisor.Supervisor(control, memory_bytes, oom_score, watch)


def _disk_watch(limit_bytes: object) -> disk.Watch | None:
    if not isinstance(limit_bytes, int):
        return None
    return disk.Watch(os.open("/dev/swe_sdk/layer", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), limit_bytes)
