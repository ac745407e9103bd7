"""The SDK's side of the zygote: started when the first box is wanted, ends with this process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from swe_sdk.errors import CreateFailed, SweError
from swe_sdk.sandbox import boxside
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup
from swe_sdk.sandbox.providers.local.diagnosis import explain
from swe_sdk.sandbox.wire import PeerGone, close_all, open_call

CREATE_TIMEOUT_S = 30.0
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from boxside import zygote; zygote.main(int(sys.argv[2]))"


class Zygote:
    """A process that clones boxes. Any event loop and any thread may use it; it holds no loop's objects."""

    def __init__(self, log: Path, cgroup: BoxCgroup | None) -> None:
        self._log = log
        self.cgroup = cgroup
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    async def create(self, message: dict[str, Any], control: socket.socket, on_born: Callable[[int], None]) -> int:
        """Make a box that serves ``control``; returns a pidfd of its first process, which is the caller's.

        ``on_born`` is called with that process's pid as soon as it exists.

        Raises ``CreateFailed``, or ``ProviderUnavailable`` where this machine refuses what it takes.
        """
        if self._control is None or (self._process is not None and self._process.poll() is not None):
            self._start()
        try:
            with anyio.fail_after(CREATE_TIMEOUT_S):
                return await self._create(message, control, on_born)
        except TimeoutError:
            raise CreateFailed(f"no box after {CREATE_TIMEOUT_S:.0f} s", remedy="is the machine overloaded?") from None
        except PeerGone:
            # one box's first process may have died young; the zygote itself is renewed by the next create if it did
            raise CreateFailed("the box died while it was made", remedy=f"see {self._log}; try again") from None

    async def _create(self, message: dict[str, Any], control: socket.socket, on_born: Callable[[int], None]) -> int:
        assert self._control is not None
        pidfds: list[int] = []
        with await open_call(self._control) as call:
            await call.send(message, [control.fileno()])
            try:
                while True:
                    reply, fds = await call.receive()
                    pidfds += fds
                    if reply["ev"] == "created":
                        on_born(int(reply["pid"]))
                    if reply["ev"] == "ready":
                        return pidfds.pop()
                    if reply["ev"] == "failed":
                        raise _failure(reply)
            finally:
                close_all(pidfds)

    def _start(self) -> None:
        self.close()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        program = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM]
        arguments = [str(Path(boxside.__file__).parent.parent), str(theirs.fileno())]
        with theirs, self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*program, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                start_new_session=True,
            )
        self._control = ours
        if self.cgroup is not None:
            self.cgroup.add(self._process.pid)

    def close(self) -> None:
        """End it, and every box with it."""
        control, self._control = self._control, None
        process, self._process = self._process, None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def forget(self) -> None:
        """In a forked child: the zygote and its boxes are the parent's; hold no end of its socket."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.returncode = 0  # not our child: nothing to wait for
            self._process = None


def _failure(reply: dict[str, Any]) -> SweError:
    return explain(str(reply.get("error")), reply.get("errno"))
