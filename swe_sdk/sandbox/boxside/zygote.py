"""Makes boxes: one small process that clones the first process of each of them.

It serves a control socket (see ``frames``). Each connection asks for one box; the answer carries a pidfd of its first
process. The zygote ends with the SDK (end of the control socket), and every box with the zygote (parent-death signal).
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import traceback

from . import frames, kernel, root, supervisor

_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)


def main(fd: int) -> None:
    """Serve until the SDK is gone."""
    control = socket.socket(fileno=fd)
    control.set_inheritable(False)
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the SDK's to handle
    supervisor.warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would touch, and so copy, the pages that all boxes share
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(reader, select.POLLIN)
    while True:
        for ready, _events in poll.poll():
            if ready == reader:
                _collect_children(reader)
                continue
            data, fds = frames.receive(control, 1)
            if not data:
                os._exit(0)
            for connection in fds:
                _serve_create(socket.socket(fileno=connection), (control.fileno(), reader, writer))


def _collect_children(reader: int) -> None:
    try:
        while os.read(reader, 512):
            pass
    except BlockingIOError:
        pass
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _serve_create(connection: socket.socket, inherited: tuple[int, ...]) -> None:
    """One create: the SDK has written its request at once, so a blocking read is short."""
    decoder = frames.Decoder()
    try:
        while (message := decoder.next()) is None:
            data, fds = frames.receive(connection, 1 << 16)
            if not data:
                return
            decoder.feed(data, fds)
        (control,) = decoder.take_fds()
        _create(connection, message, socket.socket(fileno=control), inherited)
    except (OSError, ValueError) as error:
        _tell(connection, {"ev": "failed", "error": str(error), "errno": getattr(error, "errno", None)})
    finally:
        decoder.close()
        connection.close()


def _create(
    connection: socket.socket, message: frames.Message, control: socket.socket, inherited: tuple[int, ...]
) -> None:
    spec = root.RootSpec.from_message(message["spec"])
    go_read, go_write = os.pipe2(os.O_CLOEXEC)
    uid, gid = os.geteuid(), os.getegid()
    flags = _NAMESPACES | (kernel.CLONE_NEWNET if spec.network == "none" else 0)
    pid = kernel.clone(flags)
    if pid == 0:
        for fd in (*inherited, go_write):
            os.close(fd)
        _run_box(connection, spec, control, go_read, (uid, gid))
    os.close(go_read)
    control.close()
    try:
        pidfd = os.pidfd_open(pid)
        if spec.id_range:
            for kind in ("uid", "gid"):
                with open(f"/proc/{pid}/{kind}_map", "w") as file:
                    file.write(message["id_map"])
        _tell(connection, {"ev": "created", "pid": pid}, (pidfd,))
        os.close(pidfd)
        os.write(go_write, b"1")
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(go_write)


def _run_box(
    connection: socket.socket, spec: root.RootSpec, control: socket.socket, go: int, caller: tuple[int, int]
) -> None:
    """The first process of the box, from its birth to its end; never returns."""
    try:
        kernel.die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not os.read(go, 1):
            os._exit(1)  # the zygote failed or died before it let us go
        os.close(go)
        if not spec.id_range:
            root.map_only_caller(*caller)
        oom_score = root.enter_box(spec)
        supervisor.forbid_imports()
        box = supervisor.Supervisor(control, spec.memory_bytes, oom_score)
        _tell(connection, {"ev": "ready"})
        connection.close()
    except BaseException as error:  # noqa: BLE001 - the last word of a process that must not return into the zygote
        _tell(connection, {"ev": "failed", "error": str(error), "errno": getattr(error, "errno", None)})
        os._exit(1)
    try:
        box.serve()
    except BaseException:  # noqa: BLE001 - as above
        traceback.print_exc()
    finally:
        os._exit(0)


def _tell(connection: socket.socket, message: frames.Message, fds: tuple[int, ...] = ()) -> None:
    try:
        frames.send_blocking(connection, message, fds)
    except OSError:
        pass  # the SDK gave up waiting; the box ends with its control socket
