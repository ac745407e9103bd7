"""A Docker engine of a test's own, which may be killed; and a door to an engine that loses answers."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import docker

from tests.shared import need_program

START_S = 60.0


class PrivateEngine:
    """``dockerd`` without networks, with everything of its own below ``home``."""

    def __init__(self, home: Path) -> None:
        need_program("dockerd")
        self.home = home
        home.mkdir()
        self.url = f"unix://{home}/docker.sock"
        self._log = (home / "log").open("wb")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        home = self.home
        (home / "pid").unlink(missing_ok=True)
        command = [
            "dockerd", "--host", self.url, "--data-root", home / "data", "--exec-root", home / "exec",
            "--pidfile", home / "pid", "--iptables=false", "--ip6tables=false", "--bridge=none",
        ]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert self._process.poll() is None, (home / "log").read_text()[-3000:]
            assert time.monotonic() < deadline, (home / "log").read_text()[-3000:]
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            self.api().ping()
        except docker.errors.DockerException:
            return False
        return True

    def api(self) -> docker.APIClient:
        """A client of the test's own."""
        return docker.APIClient(base_url=self.url, version="auto")

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
        self._log.close()
        shutil.rmtree(self.home, ignore_errors=True)


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
        threading.Thread(target=self._serve, daemon=True).start()

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
        while data := client.recv(1 << 16):
            if data.startswith(b"POST") and self._path in data.partition(b"\r\n")[0] and self.lost < self._lose:
                is_lossy.set()
            engine.sendall(data)
        engine.close()

    def _answer(self, engine: socket.socket, client: socket.socket, is_lossy: threading.Event) -> None:
        try:
            while data := engine.recv(1 << 16):
                if is_lossy.is_set():
                    self.lost += 1
                    break
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        """Nobody comes in any more."""
        self._listener.close()
