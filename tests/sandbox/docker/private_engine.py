"""A Docker engine of a test's own, which may be killed; and a door to an engine that loses answers."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import docker

from tests.shared import need_program

START_S = 60.0


class PrivateEngine:
    """``dockerd`` without networks of its own, with everything else of its own below ``home``."""

    def __init__(self, home: Path) -> None:
        need_program("dockerd")
        need_program("containerd")
        self.home = home
        home.mkdir()
        self._sockets = Path(tempfile.mkdtemp(prefix="engine-"))
        """Where it keeps sockets, whose paths may have 107 bytes and no more."""
        self.url = f"unix://{self._sockets}/docker.sock"
        self._log = (home / "log").open("wb")
        self._process: subprocess.Popen[bytes] | None = None
        # as on most machines: what keeps the containers is a service of its own, and survives the engine
        places = ("--address", self._sockets / "keeper", "--root", home / "r", "--state", home / "s")
        self._keeper = self._run("containerd", *places)

    def _run(self, *command: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        home = self.home
        (home / "pid").unlink(missing_ok=True)
        # the bridge of the machine's engine, which it does not touch: one that is to have none removes docker0
        self._process = self._run(
            "dockerd", "--host", self.url, "--containerd", self._sockets / "keeper",
            "--data-root", home / "data", "--exec-root", self._sockets / "exec", "--pidfile", home / "pid",
            "--bridge=docker0", "--iptables=false", "--ip6tables=false",
        )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, (home / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, (home / "log").read_text()[-3000:]
            time.sleep(0.1)

    def _answers(self) -> bool:
        return subprocess.run(["docker", "-H", self.url, "version"], capture_output=True).returncode == 0

    def containers(self) -> list[Any]:
        """All of them, running or not."""
        with closing(docker.APIClient(base_url=self.url, version="auto")) as api:
            found: list[Any] = api.containers(all=True)
            return found

    def signal(self, number: int) -> None:
        """To the engine alone: its containers go on."""
        assert self._process is not None
        self._process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._process.wait(60)

    def close(self) -> None:
        """End it, and what runs in it."""
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGTERM)
        self._keeper.terminate()
        self._keeper.wait(60)
        self._log.close()
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in [mount for mount in reversed(mounts) if mount.startswith((f"{self.home}/", f"{self._sockets}/"))]:
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(self.home)
        shutil.rmtree(self._sockets)


class LossyDoor:
    """A socket before the engine's, through which the first answer to a request for ``path`` does not come."""

    def __init__(self, engine: str, socket_path: Path, path: str, *, lose: int = 1) -> None:
        self.url = f"unix://{socket_path}"
        self.lost = 0
        self._engine = engine.removeprefix("unix://")
        self._path = path.encode()
        self._lose = lose
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(socket_path))
        self._listener.listen(64)
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(self._engine)
        is_lossy = threading.Event()
        back = threading.Thread(target=self._answer, args=(engine, client, is_lossy), daemon=True)
        back.start()
        with client, engine:
            try:
                while data := client.recv(1 << 16):
                    if data.startswith(b"POST") and self._path in data.partition(b"\r\n")[0]:
                        is_lossy.set()
                    engine.sendall(data)
                engine.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # one of them has gone
            back.join()

    def _answer(self, engine: socket.socket, client: socket.socket, is_lossy: threading.Event) -> None:
        try:
            while data := engine.recv(1 << 16):
                if is_lossy.is_set() and self.lost < self._lose:
                    self.lost += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        """Nobody comes in any more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        self._listener.close()
