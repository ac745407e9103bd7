"""Makes boxes where only a bubblewrap that the machine knows may make namespaces: one ``bwrap`` for each of them.

It takes the place of the zygote, and serves its control socket in the same words. A box's first process is our
supervisor here, too (``launched``), under an interpreter that we carry into the box. Nothing relies on capabilities:
a machine that lets bubblewrap alone make namespaces takes them from whatever bubblewrap starts.

Where the SDK is root, bubblewrap runs as the boxes' agent user, in mounts of its own: everything that a box needs is
bound to where that user can find it. So nothing in a box is root on this machine.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import time
from typing import Any

from . import frames, kernel, merging, placing, root, zygote
from .watch import Watch

RUNTIME = "/dev/swe_sdk/runtime"
"""Where the interpreter is in a box. /dev is no part of any layer, and so no snapshot sees the place for it."""
LAYER = "/dev/swe_sdk/layer"
"""Where the supervisor sees the writable layer by itself, if it is to watch it."""
_ROOMS = ("/tmp", "/mnt", "/srv", "/opt")
"""Where a root launcher's child may have everything bound that belongs into its box."""
_START_S = 20.0
_DIRECTORIES = ("skeletons", "layers", "boxes")
_MAIN = "from boxside import launched; import sys; launched.main(*sys.argv[1:])"


def main(fd: int, agent: int | None) -> None:
    """Serve until the SDK is gone. ``agent``: the user that boxes are to be; None = the caller."""
    zygote.main(fd, lambda connection, inherited, watch: _serve(connection, inherited, watch, agent))


def _serve(connection: socket.socket, inherited: tuple[int, ...], watch: Watch, agent: int | None) -> None:
    decoder = frames.Decoder()
    try:
        message = zygote.read_request(connection, decoder)
        if message is None:
            return
        if "spec" in message:
            started = _launch(connection, message, decoder.fds, agent)
            if started is not None:
                supervisor, waited_for = started
                zygote.prefer(supervisor)
                watch.add(supervisor, waited_for)
        else:
            _copy(connection, message, decoder.fds, inherited, agent)
    except (OSError, ValueError) as error:
        zygote.tell(connection, frames.failed(error))
    finally:
        decoder.close()
        connection.close()


# -- boxes ---------------------------------------------------------------------------------------------------------


def _launch(
    connection: socket.socket, message: frames.Message, fds: list[int], agent: int | None
) -> tuple[int, int] | None:
    """Start a box: the pid of its first process, and of the bwrap that waits for it.

    None where bwrap has failed, which has said why in the last of ``fds``.
    """
    spec = root.RootSpec.from_message(message["spec"])
    control, said = fds
    facts, facts_end = os.pipe2(os.O_CLOEXEC)
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        _become_bwrap(spec, message["bwrap"], agent, (control, connection.fileno(), theirs.fileno(), facts_end), said)
    os.close(facts_end)
    theirs.close()
    with ours:
        try:
            first = _first_process(facts)
            if first is None:
                return None
            zygote.announce(control, first)
            if agent is not None:
                _limit_segments(first, spec.shared_memory_bytes // 2, agent)
            _hand_over_oom_score(first, ours)
            return first, pid
        finally:
            os.close(facts)


def _become_bwrap(
    spec: root.RootSpec, program: dict[str, Any], agent: int | None, fds: tuple[int, ...], said: int
) -> None:
    """The child: never returns."""
    try:
        log = os.dup(2)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.setsid()
        state = spec.state
        if agent is not None:
            spec, program, state = _in_own_mounts(spec, program, agent)
        kernel.die_with_parent()
        for fd in (log, *fds):
            os.set_inheritable(fd, True)
        os.chdir("/")
        os.execv(program["path"], _command(spec, program, state, log, fds))
    except BaseException as error:  # noqa: BLE001 - the last word of a process that must not return into the launcher
        os.write(2, f"swe_sdk: {error}\n".encode("utf-8", "replace"))
    finally:
        os._exit(1)


def _in_own_mounts(
    spec: root.RootSpec, program: dict[str, Any], agent: int
) -> tuple[root.RootSpec, dict[str, Any], str]:
    """Bind what the box needs to where ``agent`` can find it, and become that user."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    state_trees = [kernel.grab_tree(f"{spec.state}/{name}", read_only=False) for name in _DIRECTORIES]
    sources = [*(bind["source"] for bind in spec.binds), program["runtime"]]
    trees = [(kernel.grab_tree(source, read_only=True), os.path.isdir(source)) for source in sources]
    room = _room(program["path"])
    kernel.mount("tmpfs", room, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=755,size=1m")
    for name, tree in zip(_DIRECTORIES, state_trees, strict=True):
        os.mkdir(f"{room}/{name}")
        kernel.attach_tree(tree, f"{room}/{name}")
    places = [f"{room}/{number}" for number in range(len(trees))]
    for place, (tree, is_directory) in zip(places, trees, strict=True):
        os.mkdir(place) if is_directory else os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
        kernel.attach_tree(tree, place)
    _become(agent)
    binds = [{**bind, "source": place} for bind, place in zip(spec.binds, places, strict=False)]
    return spec._replace(binds=binds), {**program, "runtime": places[-1]}, room


def _room(bubblewrap: str) -> str:
    """A directory of the machine under which bubblewrap itself does not lie: what does is covered."""
    real = os.path.realpath(bubblewrap)
    return next(room for room in _ROOMS if os.path.isdir(room) and not real.startswith(f"{os.path.realpath(room)}/"))


def _become(agent: int, *groups: int) -> None:
    os.setgroups(groups)
    os.setresgid(agent, agent, agent)
    os.setresuid(agent, agent, agent)


def _command(spec: root.RootSpec, program: dict[str, Any], state: str, log: int, fds: tuple[int, ...]) -> list[str]:
    *inherited, facts = fds
    options = {
        "log": log,
        "fds": inherited,
        "rlimits": spec.rlimits,
        "workdir": spec.workdir,
        "memory_bytes": spec.memory_bytes,
        "disk_bytes": spec.disk_bytes,
        "host_network": spec.network == "host",
    }
    return [
        program["path"],
        "--unshare-all", *(("--share-net",) if spec.network == "host" else ()),
        "--unshare-user", "--disable-userns", "--uid", str(root.AGENT_ID), "--gid", str(root.AGENT_ID),
        "--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv", "--hostname", spec.hostname,
        *_root(spec, state),
        "--dev", "/dev", "--size", str(spec.shared_memory_bytes), "--perms", "1777", "--tmpfs", "/dev/shm",
        "--ro-bind", program["runtime"], RUNTIME,
        *(("--ro-bind", f"{state}/{spec.upper}", LAYER) if spec.disk_bytes is not None else ()),
        "--remount-ro", "/dev",
        "--proc", "/proc", *_masks(), "--remount-ro", "/proc",
        "--info-fd", str(facts), "--as-pid-1", "--", *program["interpreter"], "-c", _MAIN, json.dumps(options),
    ]  # fmt: skip


def _root(spec: root.RootSpec, state: str) -> list[str]:
    """The overlay, and what is mounted over it, where no link of a layer leads it astray."""
    layers = [f"{state}/{path}" for path in (spec.upper, *spec.lowers)]
    words = [word for layer in reversed(layers[1:]) for word in ("--overlay-src", layer)]
    words += ["--overlay", layers[0], f"{state}/{spec.work}", "/"]
    for place in ("/dev", "/proc"):
        if placing.resolve(layers, place) != place:
            raise OSError(errno.ELOOP, f"{place} is a link in this box")
    for bind in spec.binds:
        words += ["--ro-bind", bind["source"], placing.resolve(layers, bind["target"])]
    return words


def _masks() -> list[str]:
    """Cover what /proc tells of the host's kernel beyond the box's own processes."""
    found = [f"/proc/{name}" for name in root.MASKED if os.path.exists(f"/proc/{name}")]
    return [word for path in found for word in ("--dev-bind", "/dev/null", path)]


def _first_process(facts: int) -> int | None:
    """Its pid, which bwrap writes in several pieces; None if it ends before."""
    poll, deadline, text = select.poll(), time.monotonic() + _START_S, b""
    poll.register(facts, select.POLLIN)
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        piece = os.read(facts, 4096)
        text += piece
        if text.endswith(b"}\n"):
            return int(json.loads(text)["child-pid"])
        if not piece:
            return None
    raise OSError(errno.ETIMEDOUT, f"bwrap has not started anything within {_START_S:.0f} s")


def _limit_segments(first: int, size: int, agent: int) -> None:
    """Bound the System V segments of a box, see ``root.limit_segments``, which root alone may do."""
    own = os.open("/proc/self/ns/ipc", os.O_RDONLY | os.O_CLOEXEC)
    try:
        theirs = os.open(f"/proc/{first}/ns/ipc", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        os.close(own)
        return  # it has ended already, and said why
    try:
        kernel.join(theirs, kernel.CLONE_NEWIPC)
        if not root.limit_segments(size):  # its ids are mapped already: the setting is theirs from then on
            os.seteuid(agent)
            root.limit_segments(size)
            os.seteuid(0)
    finally:
        kernel.join(own, kernel.CLONE_NEWIPC)
        os.close(own)
        os.close(theirs)


def _hand_over_oom_score(first: int, to: socket.socket) -> None:
    """Programs may not write to /proc, so the supervisor's own score is opened out here."""
    try:
        fd = os.open(f"/proc/{first}/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # it has ended already, and said why
    try:
        to.sendmsg([b"o"], frames.rights([fd]))
    finally:
        os.close(fd)


# -- layers --------------------------------------------------------------------------------------------------------


def _copy(
    connection: socket.socket, message: frames.Message, fds: list[int], inherited: tuple[int, ...], agent: int | None
) -> None:
    """A process that merges layers, as the user that owns what is in them."""

    def merge() -> zygote.Serve:
        if agent is not None:
            _become(agent, os.fstat(fds[0]).st_gid)  # the group that may pass through the state directory
            kernel.die_with_parent()
        kernel.forbid_new_privileges()
        merging.allow_depth()
        merging.merge(message["layers"], message["target"], within=fds[0])
        return lambda _connection: None

    if "limit_bytes" in message:
        raise OSError(errno.EOPNOTSUPP, "images cannot be unpacked")
    zygote.start_plain(connection, merge, inherited)
