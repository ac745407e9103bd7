"""Starts the programs of a box.

By the C half of ``subprocess`` alone. Its Python half imports threads, whose hook runs after every fork, and much else:
that cost each box a quarter of its memory and of the time of its birth.
"""

from __future__ import annotations

import os

# Private: its arguments have been these from Python 3.11 to 3.13. Should they change, the zygote's
# warm-up fails at once and says so.
from _posixsubprocess import fork_exec

from . import frames

_REPORT_BYTES = 4096


class Birth:
    """A child that is about to become a program."""

    def __init__(self, pid: int, reader: int, message: frames.Message) -> None:
        self.pid = pid
        self._reader = reader
        self._message = message

    def failure(self) -> Exception | None:
        """What kept it from becoming the program; waits until that is known. May be asked once."""
        try:
            report = b"".join(iter(lambda: os.read(self._reader, _REPORT_BYTES), b""))  # ends when the program starts
        finally:
            os.close(self._reader)
        return _failure(report, self._message) if report else None


def spawn(message: frames.Message, fds: list[int]) -> int:
    """Start a program in a session of its own, with ``fds`` as its streams; its pid, or ``OSError``.

    Waits until the child has become the program; without a change of user it goes by vfork.
    """
    child = begin(message, fds, by_vfork=True)
    failure = child.failure()
    if failure is not None:
        os.waitpid(child.pid, 0)
        raise failure
    return child.pid


def begin(message: frames.Message, fds: list[int], *, by_vfork: bool) -> Birth:
    """The same without waiting for anything, if it does not go by vfork."""
    argv, uid = [os.fsencode(word) for word in message["argv"]], message.get("uid")
    gid, groups = message.get("gid"), message.get("groups")  # given with a uid, or not at all
    if not argv:
        raise ValueError("no program is named")
    stdin, stdout, stderr = fds
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        # close_fds, kept descriptors; where it starts; ...; restore signals, new session, process group; ...; by vfork
        pid = fork_exec(
            argv, _candidates(argv[0], message["env"]), True, (writer,), message["cwd"], _encoded(message["env"]),
            stdin, -1, -1, stdout, -1, stderr, reader, writer, True, True, -1, gid, groups, uid, 0o022,
            None, by_vfork,  # type: ignore[arg-type]
        )  # fmt: skip
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    return Birth(pid, reader, message)


def _candidates(name: bytes, env: list[str]) -> tuple[bytes, ...]:
    """The paths that a program's name may mean, in order."""
    if b"/" in name:
        return (name,)
    variables = dict(pair.split("=", 1) for pair in env)
    return tuple(os.path.join(os.fsencode(directory), name) for directory in os.get_exec_path(variables))


def _encoded(env: list[str]) -> list[bytes]:
    """All of them in one go: they are many, and no variable holds a NUL."""
    return os.fsencode("\0".join(env)).split(b"\0") if env else []


def _failure(report: bytes, message: frames.Message) -> Exception:
    """What kept the program from starting; the child has reported it as ``KIND:ERRNO in hexadecimal:STAGE``."""
    kind, number, stage = report.split(b":", 2)
    if kind != b"OSError":
        return ValueError(report.decode("ascii", "replace"))
    code = int(number, 16)
    return OSError(code, os.strerror(code), message["cwd"] if stage == b"noexec" else message["argv"][0])
