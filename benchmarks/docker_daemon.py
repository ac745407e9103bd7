"""Docker: a private daemon with its state beside the benchmarks' own, or else the one that runs already."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.rows import Unavailable
from benchmarks.state import default_state, temporary_folder

IMAGE = "swe-sdk-benchmark"
_START_S = 30.0
_STOP_S = 20.0


class Docker:
    """The ``docker`` program and the daemon that it talks to."""

    def __init__(self, program: str, host: str | None, cgroup_parent: str | None) -> None:
        self._program = program
        self.env = {**os.environ, **({"DOCKER_HOST": host} if host else {})}
        self.is_metered = cgroup_parent is not None
        """Whether the meter counts what the daemon and its containers use."""
        self._parent = ["--cgroup-parent", cgroup_parent] if cgroup_parent else []

    def __call__(self, *arguments: str) -> str:
        """Run one command and return its output; ``Unavailable`` where it fails."""
        done = subprocess.run(
            [self._program, *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise Unavailable(f"docker {arguments[0]} failed: {done.stderr.strip()[-300:]}")
        return done.stdout.strip()

    @property
    def version(self) -> str:
        """Of the daemon."""
        return self("version", "--format", "{{.Server.Version}}")

    def run(self, *arguments: str) -> list[str]:
        """The arguments of a ``docker run`` as isolated as a box: with no network but its own loopback."""
        return ["run", "--network", "none", *self._parent, *arguments]

    def argv(self, *arguments: str) -> list[str]:
        """A whole command line, for somebody else to run with :attr:`env`."""
        return [self._program, *arguments]


@contextmanager
def docker_daemon(folder: Path, root: Path, group: str | None) -> Iterator[Docker]:
    """Docker with :data:`IMAGE` made from the directory ``root``.

    ``group`` is the meter's control group, which a daemon started here and its containers live in.
    """
    program = shutil.which("docker")
    if program is None:
        raise Unavailable("there is no docker program (Debian, Ubuntu: apt-get install docker.io)")
    if os.geteuid() == 0 and shutil.which("dockerd") is not None:
        folder.mkdir()
        with temporary_folder(default_state()) as runtime, _private_daemon(program, folder, runtime, group) as docker:
            _import(docker, root)
            yield docker
        return
    docker = Docker(program, None, None)
    _import(docker, root)
    try:
        yield docker
    finally:
        docker("image", "rm", "--force", IMAGE)


def _import(docker: Docker, root: Path) -> None:
    archive = root.with_suffix(".tar")
    subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
    docker("import", str(archive), IMAGE)
    archive.unlink()


@contextmanager
def _private_daemon(program: str, folder: Path, runtime: Path, group: str | None) -> Iterator[Docker]:
    """``runtime`` holds its sockets, whose paths may not be long."""
    socket = f"unix://{runtime}/socket"
    # in a network namespace of its own: a daemon that is to have no bridge removes docker0, whosever that is
    command = ["unshare", "--net", "dockerd", "-H", socket, "--data-root", f"{folder}/data"]
    command += ["--exec-root", f"{runtime}/exec"]
    command += ["--pidfile", f"{folder}/pid", "--bridge", "none", "--iptables=false"]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        docker = Docker(program, socket, f"/{group}/docker" if group else None)
        _await_answer(docker, daemon, folder / "log")
        yield docker
        _await_removals(docker)
    finally:
        _stop(daemon)
        _unmount_below(folder, runtime)


def _await_answer(docker: Docker, daemon: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while True:
        try:
            docker("version")
        except Unavailable:
            if daemon.poll() is not None or time.monotonic() > deadline:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise Unavailable(f"dockerd does not start: {' '.join(last)[-300:]}") from None
            time.sleep(0.1)
        else:
            return


def _await_removals(docker: Docker) -> None:
    """``docker run --rm`` answers before its container is gone, and a daemon that is stopped meanwhile waits long."""
    deadline = time.monotonic() + _STOP_S
    while docker("ps", "--all", "--quiet") and time.monotonic() < deadline:
        time.sleep(0.1)


def _stop(daemon: subprocess.Popen[bytes]) -> None:
    daemon.terminate()
    try:
        daemon.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def _unmount_below(*folders: Path) -> None:
    """Whatever mounts a daemon has left that did not end in peace."""
    targets = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    ours = [target for target in targets if any(target.startswith(f"{folder}/") for folder in folders)]
    for target in sorted(ours, reverse=True):
        subprocess.run(["umount", "--lazy", target], check=False)
