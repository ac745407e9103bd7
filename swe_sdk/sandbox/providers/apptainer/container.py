"""An image, mounted by Apptainer, and the zygote within, which makes the boxes on it.

One ``apptainer exec`` an image, not one a box. Apptainer does what it is there for: it mounts the image without root
and makes this user root of a namespace. The process that it starts is our zygote (:mod:`..boxside.container`), and a
box is what a box of the local provider is: namespaces of its own, and an overlay whose lowest layer is the image.

Why not ``apptainer instance start`` for each box: it takes 0.3 s to start and 1.5 to 3.4 s to stop, always; its
commands take 40 to 60 ms; and a program in it can reach, and kill, whatever else runs in the instance.

Why not one ``apptainer exec --overlay DIR`` for each box, under our supervisor: 0.2 s and more than 20 MB a box, where
one of the zygote takes 5 ms and 2 MB; ``fuse-overlayfs`` between the program and its files, where here it is the
kernel; and layers in a form of its own, that nothing but itself can merge. The kernel's own overlay, which Apptainer
may mount instead, is mounted without ``userxattr``: ``rm -r`` of a directory of the image then fails (1.4.5). And
``--writable-tmpfs`` holds 64 MB (``sessiondir max size``) that cannot be frozen. So Apptainer's overlay is not used at
all, and a site may well have switched it off.

It ends with this process: its standard input is the control socket, at whose end the zygote exits. That was process 1
of the container, so the kernel takes the boxes with it; then Apptainer unmounts the image and exits.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from anyio import to_thread

from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.boxside import processes
from swe_sdk.sandbox.providers.apptainer.diagnosis import explain_start
from swe_sdk.sandbox.providers.apptainer.library import Image
from swe_sdk.sandbox.providers.apptainer.program import Program, environment
from swe_sdk.sandbox.providers.local.cgroups import BoxCgroup
from swe_sdk.sandbox.providers.local.zygote import Born, Zygote
from swe_sdk.sandbox.runtime import Runtime

_MACHINE = "/mnt"
"""Where this machine's file system is bound in the container: a directory that images have. The zygote makes it its
root, and nothing of the container is left but the image."""
_MAIN = "import sys; from boxside import container; container.main(*sys.argv[1:])"
_FLAGS = (
    "--pid", "--no-init",  # the zygote is process 1
    "--containall", "--cleanenv", "--no-eval", "--no-umask", "--pwd", "/",
    "--no-home", "--no-mount", "home,tmp,cwd,sys,hostfs,bind-paths",
    "--bind", f"/:{_MACHINE}", "--env", "LD_PRELOAD=",  # an image's own would be loaded into the zygote
)  # fmt: skip
_AS_ROOT = ("--userns",)
_AS_USER = ("--fakeroot", "--ignore-subuid", "--ignore-fakeroot-command")
"""Root by a namespace of one id: no setuid program, no /etc/subuid, and every file that boxes leave is the user's."""
_METADATA = ".singularity.d"
"""What Apptainer puts into the images that it makes, .sif file or directory."""
_PLACES = ("dev", "etc", "mnt", "proc", "sys", "tmp")
_LOG_BYTES = 1 << 14


@dataclass(frozen=True)
class Facts:
    """What an image says of itself once it is mounted."""

    env: dict[str, str] = field(default_factory=dict)
    has_bash: bool = False


class ImageZygote(Zygote):
    """Makes boxes on one image. Started when the first is wanted."""

    def __init__(
        self,
        image: Image,
        *,
        needs: Callable[[], tuple[Program, Runtime]],
        state: Path,
        cgroup: BoxCgroup | None,
        start_timeout_s: float,
    ) -> None:
        super().__init__(Path(os.devnull), cgroup)
        self.image = image
        self.facts = Facts()
        self._needs = needs
        self._state = state
        self._start_timeout_s = start_timeout_s

    async def start(self) -> Facts:
        """Mount the image, unless it is. ``CreateFailed``, or ``ProviderUnavailable`` with what to do."""
        await to_thread.run_sync(self._started)
        return self.facts

    async def create(self, message: dict[str, Any]) -> Born:
        """As the zygote does; programs are root in the box, as in a container."""
        await self.start()
        return await super().create({**message, "user": 0})

    def _start(self) -> None:
        self.close()
        if _now_at(self.image.path) != self.image:
            raise CreateFailed(f"the image {self.image.path} has changed, or is gone", remedy="make a new box on it")
        program, runtime = self._needs()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        command = [program.path, "-q", "exec", *(_AS_USER if os.geteuid() else _AS_ROOT), *_FLAGS]
        python = runtime.interpreter(f"{_MACHINE}{runtime.path}")
        zygote = [*python, "-c", _MAIN, _MACHINE, str(self._state)]
        image = self.image.path
        if image.is_dir() and not (image / _METADATA).is_dir():
            zygote.append(str(image))  # it may lack the places that Apptainer mounts on
            image = self._empty()
        with theirs, tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                [*command, str(image), *zygote],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                cwd="/",
                start_new_session=True,
            )
            theirs.close()
            self._control, self._process = ours, process
            try:
                self.facts = self._read_facts(process, log)
            except BaseException:
                process.kill()  # it may hang, and knows nothing of the socket yet
                self.close()
                raise

    def close(self) -> None:
        """End it, and every box with it, and unmount the image."""
        process = self._process
        super().close()
        if process is not None and process.returncode:
            _end_session(process.pid)  # Apptainer was killed, or failed: it has not ended what serves the image

    def _empty(self) -> Path:
        """An image that has nothing but the places that Apptainer mounts on."""
        empty = self._state / "empty"
        for place in _PLACES:
            (empty / place).mkdir(parents=True, exist_ok=True)
        return empty

    def _read_facts(self, process: subprocess.Popen[bytes], log: IO[bytes]) -> Facts:
        """The first line that the zygote prints; it serves from then on."""
        assert process.stdout is not None
        with process.stdout:
            line = _first_line(process.stdout.fileno(), self._start_timeout_s)
        if line is None:
            why = f"apptainer did not mount {self.image.path} within {self._start_timeout_s:.0f} s"
            raise CreateFailed(why, remedy="is its file system overloaded?")
        if not line:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES))
            raise explain_start(self.image.path, log.read().decode("utf-8", "replace"))
        try:
            message = json.loads(line)
        except ValueError:
            raise CreateFailed(f"apptainer says {line[:200]!r} where our zygote should speak") from None
        if self.cgroup is not None:
            self.cgroup.add(message["pid"])
        return Facts(_of_image(message["env"]), message["bash"])


def _end_session(leader: int) -> None:
    for info in processes.living().values():
        if info.session == leader:
            with suppress(ProcessLookupError):
                os.kill(info.pid, signal.SIGKILL)


def _now_at(path: Path) -> Image | None:
    try:
        return Image.at(path)
    except OSError:
        return None


def _first_line(fd: int, timeout_s: float) -> bytes | None:
    """A line, b"" if none will come, or None where it takes too long."""
    poll, deadline, line = select.poll(), time.monotonic() + timeout_s, b""
    poll.register(fd, select.POLLIN)
    while not line.endswith(b"\n"):
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        piece = os.read(fd, 1 << 16)
        if not piece:
            return b""
        line += piece
    return line


def _of_image(env: dict[str, str]) -> dict[str, str]:
    """The variables that the image sets, without what Apptainer adds."""
    added = {"PS1", "PROMPT_COMMAND", "PWD", "OLDPWD", "SHLVL", "_", "TERM", "HOME", "LD_LIBRARY_PATH", "LD_PRELOAD"}
    kept = {
        name: value
        for name, value in env.items()
        if name not in added and not name.startswith(("APPTAINER_", "SINGULARITY_"))
    }
    paths = [path for path in env.get("LD_LIBRARY_PATH", "").split(":") if path and path != "/.singularity.d/libs"]
    if paths:
        kept["LD_LIBRARY_PATH"] = ":".join(paths)
    if kept.get("LANG") == "C":
        del kept["LANG"]  # what it sets where the image does not
    return kept
