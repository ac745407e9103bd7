"""Makes boxes: one small process that clones the first process of each of them.

It serves a control socket (see ``frames``). Each connection asks for one box, or for a process that merges or unpacks
layers. A pidfd of the new process is sent before it begins: on the connection, or on the control socket of a box, where
nobody waits for it, as who asked for the box waits until it serves. The zygote ends with the SDK (end of the control
socket), and all that it made with the zygote (parent-death signal).
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable

from . import disk, frames, kernel, merging, root, supervisor
from .watch import Watch, children

_NAMESPACES = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
    | kernel.CLONE_NEWCGROUP
)
_MERGE_CAPS = frozenset({kernel.CAP_CHOWN, kernel.CAP_DAC_OVERRIDE, kernel.CAP_FOWNER, kernel.CAP_FSETID})
Serve = Callable[[socket.socket], None]
_Main = Callable[[], Serve]
"""What a new process does: get ready, then (what it returns) serve, beginning with the connection that asked for it."""
_Answer = Callable[[socket.socket, tuple[int, ...], Watch], None]
"""Answers the request that a connection brings; the descriptors are what no child may keep."""


def main(fd: int, serve: _Answer | None = None) -> None:
    """Serve until the SDK is gone. ``serve``: what answers a request, where that is not the zygote's own way."""
    serve = serve or _serve
    control = socket.socket(fileno=fd)
    control.set_inheritable(False)
    _forget_signal_settings()
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    supervisor.hear_of_children()
    supervisor.warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection would touch, and so copy, the pages that all boxes share
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(reader, select.POLLIN)
    watch = Watch()
    while True:
        for ready, _events in poll.poll(watch.patience_ms):
            if ready == reader:
                _collect_children(reader, watch)
                continue
            data, fds = frames.receive(control, 1)
            if not data:
                _end_children()
                os._exit(0)
            for connection in fds:
                serve(socket.socket(fileno=connection), (control.fileno(), reader, writer), watch)
        watch.look()


def _end_children() -> None:
    """They would end with this process, but only after it: who waits for it may rely on their end."""
    for pid in children(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _collect_children(reader: int, watch: Watch) -> None:
    os.read(reader, supervisor.WAKEUP_BYTES)
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        watch.remove(pid)


def read_request(connection: socket.socket, decoder: frames.Decoder) -> frames.Message | None:
    """A request, None if none comes: the SDK has written it at once, so a blocking read is short."""
    while (message := decoder.next()) is None:
        data, fds = frames.receive(connection, 1 << 16)
        if not data:
            return None
        decoder.feed(data, fds)
    return message


def _serve(connection: socket.socket, inherited: tuple[int, ...], watch: Watch) -> None:
    decoder = frames.Decoder()
    try:
        message = read_request(connection, decoder)
        if message is None:
            return
        is_box = "spec" in message
        flags, main = _work(message, decoder.fds)
        ids = message["id_map"], int(message.get("user", root.AGENT_ID))
        pid = _start(connection, decoder.fds[0] if is_box else connection.fileno(), *ids, flags, main, inherited)
        if is_box:
            prefer(pid)
            watch.add(pid)
    except (OSError, ValueError) as error:
        tell(connection, frames.failed(error))
    finally:
        decoder.close()
        connection.close()


def _work(message: frames.Message, fds: list[int]) -> tuple[int, _Main]:
    """The flags of a new process, and what it does."""
    if "spec" in message:
        return _box(message, fds)
    return _unpack(message, fds) if "limit_bytes" in message else _merge(message, fds)


def _box(message: frames.Message, fds: list[int]) -> tuple[int, _Main]:
    """The first process of a box, which serves the control socket that came with the request."""
    network = message["spec"]["network"]

    def main() -> Callable[[socket.socket], None]:
        spec = root.RootSpec.from_message(message["spec"])
        held = root.enter_box(spec)
        supervisor.forbid_imports()
        watch = None if held.layer is None or spec.disk_bytes is None else disk.Watch(held.layer, spec.disk_bytes)
        return supervisor.Supervisor(socket.socket(fileno=fds[0]), spec.memory_bytes, held.oom_score, watch).serve

    return _NAMESPACES | (kernel.CLONE_NEWNET if network == "none" else 0), main


def _merge(message: frames.Message, fds: list[int]) -> tuple[int, _Main]:
    """A process that merges layers of the state directory, which came with the request.

    It has the ids of the boxes and power over their files alone: it reads what a program has closed to its own user,
    and nothing that a program has left in a layer can lead it to a file of the host.
    """

    def main() -> Callable[[socket.socket], None]:
        if message["id_map"] is not None:
            root.become(0)
        kernel.set_capabilities(_MERGE_CAPS)
        merging.allow_depth()
        merging.merge(message["layers"], message["target"], within=fds[0])
        return lambda _connection: None

    return kernel.CLONE_NEWUSER, main


def _unpack(message: frames.Message, fds: list[int]) -> tuple[int, _Main]:
    """A process that unpacks a layer of an image into a directory: both came with the request.

    It has a box's rights, and those of no other: see ``unpacking``.
    """
    try:
        from . import unpacking  # here, where its code can be read for certain; boxes of other processes do without
    except ImportError as error:
        raise ValueError(f"this Python was built without a module that it takes: {error}") from None

    def main() -> Callable[[socket.socket], None]:
        if message["id_map"] is not None:
            os.setgroups([])
            root.become(root.AGENT_ID)
        supervisor.forbid_imports()
        unpacking.run(message, target=fds[0], blob=fds[1])
        return lambda _connection: None

    return kernel.CLONE_NEWUSER, main


def _start(
    connection: socket.socket,
    told: int,
    id_map: str | None,
    user: int,
    flags: int,
    main: _Main,
    inherited: tuple[int, ...],
) -> int:
    """Clone a process that runs ``main`` in new namespaces.

    ``told``: the socket that its pidfd goes to. ``id_map``: its ids, or None for the caller's own alone, which is
    ``user`` there.
    """
    go_read, go_write = os.pipe2(os.O_CLOEXEC)
    caller = (os.geteuid(), os.getegid(), user)
    pid = kernel.clone(flags)
    if pid == 0:
        for fd in (*inherited, go_write):
            os.close(fd)
        _run(connection, main, go_read, None if id_map else caller)
    os.close(go_read)
    try:
        if id_map is not None:
            for kind in ("uid", "gid"):
                root.write_file(f"/proc/{pid}/{kind}_map", id_map)
        announce(told, pid)
        os.write(go_write, b"1")
        return pid
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(go_write)


def announce(told: int, pid: int) -> None:
    """Send a pidfd of a new process to whoever has the other end of ``told``.

    It does not send one itself: descriptors on their way are counted for each user, and a program of another box may
    have used up what a box's user may send.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return  # it has ended already, and said why
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, os.dup(told)) as sock:
            tell(sock, frames.CREATED, (pidfd,))
    finally:
        os.close(pidfd)


def prefer(supervisor: int) -> None:
    """Let a supervisor have the processor before its programs, which start with the usual priority (RESET_ON_FORK).

    It would else have to wait for hundreds of them until it can kill them.
    """
    try:
        # in this order: it forks already, and what it forks between the two must not be preferred
        os.sched_setscheduler(supervisor, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, supervisor, -10)
    except (PermissionError, ProcessLookupError):
        pass  # an ordinary user may not; or it has failed already


def start_plain(connection: socket.socket, main: _Main, inherited: tuple[int, ...]) -> None:
    """Fork a process that runs ``main`` as what this one is."""
    go_read, go_write = os.pipe2(os.O_CLOEXEC)
    pid = kernel.clone(0)
    if pid == 0:
        for fd in (*inherited, go_write):
            os.close(fd)
        _run(connection, main, go_read, None)
    os.close(go_read)
    announce(connection.fileno(), pid)
    os.write(go_write, b"1")
    os.close(go_write)


def _forget_signal_settings() -> None:
    """What the SDK's process ignores or blocks (nohup does) must not be ignored or blocked in the programs of a box."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _run(connection: socket.socket, main: _Main, go: int, own_ids: tuple[int, int, int] | None) -> None:
    """The new process, from its birth to its end; never returns."""
    try:
        kernel.die_with_parent()
        signal.set_wakeup_fd(-1)
        if not os.read(go, 1):
            os._exit(1)  # the zygote failed or died before it let us go
        os.close(go)
        if own_ids is not None:
            root.map_only_caller(*own_ids)
        serve = main()
        tell(connection, frames.READY)
    except BaseException as error:  # noqa: BLE001 - the last word of a process that must not return into the zygote
        tell(connection, frames.failed(error))
        os._exit(1)
    try:
        serve(connection)
    except BaseException:  # noqa: BLE001 - as above
        sys.excepthook(*sys.exc_info())  # the module ``traceback`` would bring many others into every box
    finally:
        os._exit(0)


def tell(connection: socket.socket, frame: bytes, fds: tuple[int, ...] = ()) -> None:
    """Answer a request; the SDK may have given up waiting."""
    try:
        frames.send_blocking(connection, frame, fds)
    except OSError:
        pass  # the SDK gave up waiting; the box ends with its control socket
