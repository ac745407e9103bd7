"""A real OpenSandbox server for tests, with a home of its own and our stand-in for its daemon."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

from swe_sdk.sandbox.locks import locked
from tests.sandbox.docker.images import debian_image
from tests.shared import lacking

VERSION = "1.1.1"
API_KEY = "swe-sdk-test-key"
SNAPSHOT_IMAGES = "opensandbox-snapshots"
_STUB = Path(__file__).parent / "stub"
_READY_S = 60.0
_CONFIG = """
[server]
host = "127.0.0.1"
port = {port}
api_key = "{api_key}"
max_sandbox_timeout_seconds = 86400
[runtime]
type = "docker"
execd_image = "{execd_image}"
[store]
type = "sqlite"
path = "{home}/store.db"
[storage]
allowed_host_paths = []
[docker]
network_mode = "{network}"
publish_host = "127.0.0.1"
no_new_privileges = true
pids_limit = 4096
[ingress]
mode = "direct"
[egress]
image = "swe-sdk-test/no-egress:none"
mode = "dns"
"""


@cache
def server_program() -> Path:
    """The server, installed once on a machine in an environment of its own."""
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = (
        cache_home / "swe_sdk-test" / f"opensandbox-server-{VERSION}-{sys.version_info.major}.{sys.version_info.minor}"
    )
    home.parent.mkdir(parents=True, exist_ok=True)
    program = home / "bin" / "opensandbox-server"
    with locked(home.with_suffix(".lock")):
        if not program.exists():
            _install(home)
    return program


def _install(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=120)
    pip = [home / "bin" / "python", "-m", "pip", "install", "-q", f"opensandbox-server=={VERSION}"]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        shutil.rmtree(home, ignore_errors=True)
        lacking(f"the package index has no opensandbox-server: {done.stderr[-500:]}")


@cache
def execd_image() -> str:
    """An image with the stand-in, on the image that tests stand on; or with what ``SWE_SDK_TEST_EXECD`` names.

    That is a directory with the real ``execd`` and its ``bootstrap.sh``.
    """
    home = Path(os.environ.get("SWE_SDK_TEST_EXECD") or _STUB)
    files = {name: (home / name).read_bytes() for name in ("execd", "bootstrap.sh")}
    digest = hashlib.sha256(repr((debian_image(), files)).encode()).hexdigest()[:12]
    name = f"swe-sdk-test:execd-{digest}"
    if subprocess.run(["docker", "image", "inspect", name], capture_output=True).returncode != 0:
        recipe = f"FROM {debian_image()}\nCOPY execd /execd\nCOPY bootstrap.sh /bootstrap.sh\n"
        command = ["docker", "build", "-q", "-t", name, "-f", "-", str(home)]
        subprocess.run(command, input=recipe, text=True, check=True, capture_output=True, timeout=300)
    return name


@cache
def shared_server() -> Server:
    """The one of all tests of this process, until its end. Who kills it starts it again."""
    home = Path(tempfile.mkdtemp(prefix="swe-sdk-opensandbox-"))
    server = Server(home)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    atexit.register(server.kill)
    server.start()
    return server


def provider_settings() -> dict[str, Any]:
    """What a provider on it is made of, also in another process; the key is in the environment."""
    return {"domain": shared_server().domain, "network": "open"}


class Server:
    """One server, below ``home``. It may be killed and started again: what it knows is kept there."""

    def __init__(self, home: Path, *, network: str = "bridge") -> None:
        self.home = home
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        config = _CONFIG.format(port=self.port, api_key=API_KEY, execd_image=execd_image(), home=home, network=network)
        (home / "config.toml").write_text(config)

    @property
    def domain(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it serves."""
        log = (self.home / "log").open("ab")
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "NO_PROXY": "*"}
        if "DOCKER_HOST" in os.environ:
            environment["DOCKER_HOST"] = os.environ["DOCKER_HOST"]
        command = [str(server_program()), "--config", str(self.home / "config.toml")]
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        log.close()
        deadline = time.monotonic() + _READY_S
        while not self._is_healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server does not start: {(self.home / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.domain}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        """As a crash would."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def metadata_files(self) -> list[str]:
        """What it keeps of sandboxes outside of its store."""
        return sorted(path.name for path in (self.home / ".opensandbox" / "metadata").glob("*"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
