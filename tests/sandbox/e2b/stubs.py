"""Servers for the tests here: stand-ins for E2B and AgentENV, on this machine's Docker engine and loopback."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from swe_sdk.sandbox.runtime import ensure_runtime
from tests.sandbox.docker.images import debian_image
from tests.sandbox.e2b.stub.containers import LABEL

KEY = "e2b_" + "0" * 40
TEMPLATE = "debian"
_ROOT = Path(__file__).resolve().parents[3]
_END_S = 60


class Server:
    """One of a dialect. It may be killed and started again: what it knows is kept in ``home``, as is its port."""

    def __init__(self, dialect: str, home: Path) -> None:
        self.dialect = dialect
        self.mark = uuid.uuid4().hex[:12]
        self.log = home / "requests"
        self._home = home
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Of its control plane, and of its gateway to sandboxes."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns when it listens."""
        templates = json.dumps({TEMPLATE: furnished_image(), debian_image(): debian_image()})
        words = [self.dialect, self.mark, templates, str(self._home), str(self._port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sandbox.e2b.stub.server", *words],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """As a crash would; its sandboxes stay."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def end(self) -> None:
        """With all that it has."""
        assert self._process is not None
        self._process.communicate(timeout=_END_S)

    @property
    def settings(self) -> dict[str, Any]:
        """For a provider."""
        return {"api_url": self.url, "sandbox_url": self.url, "api_key": KEY, "template": TEMPLATE}

    def requests(self, beginning: str = "") -> list[dict[str, Any]]:
        """What was asked of its control plane."""
        logged = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return [one for one in logged if one["request"].startswith(beginning)]

    def refuse(self, request: str, status: int, after_s: float | None = None) -> None:
        """Refuse the next request that begins so."""
        body = json.dumps({"request": request, "status": status, "after": after_s}).encode()
        with urlopen(Request(f"{self.url}/stub/refuse", body, method="POST")) as answer:
            assert answer.status == 204

    def hang_up(self) -> None:
        """Break all connections to sandboxes."""
        with urlopen(f"{self.url}/stub/hang-up") as answer:
            assert answer.status == 204

    def containers(self) -> list[str]:
        """Names of those that it has in the engine now."""
        words = ["docker", "ps", "--all", "--filter", f"label={LABEL}={self.mark}", "--format", "{{.Names}}"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()

    def images(self) -> list[str]:
        """Ids of its snapshots in the engine."""
        words = ["docker", "images", "--quiet", "--filter", f"label={LABEL}={self.mark}"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


@cache
def shared_state() -> Path:
    """A state directory for all tests here: what boxes get from this machine is made once."""
    folder = tempfile.mkdtemp(prefix="swe-sdk-e2b-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def furnished_image() -> str:
    """What most boxes stand on: the test image, with what our supervisor runs on in it already. Made once on a machine.

    A template may have that too: any that a box was snapshotted on has it.
    """
    runtime = ensure_runtime(shared_state())
    name = f"swe-sdk-test:e2b-{debian_image().rpartition('-')[2]}-{runtime.path.name}"
    if subprocess.run(["docker", "image", "inspect", name], capture_output=True).returncode != 0:
        recipe = f"FROM {debian_image()}\nCOPY . /.swe_sdk/{runtime.path.name}\n"
        command = ["docker", "build", "-q", "-t", name, "-f", "-", str(runtime.path)]
        subprocess.run(command, input=recipe, text=True, check=True, capture_output=True, timeout=300)
    return name


@contextmanager
def serving(dialect: str) -> Iterator[Server]:
    """One of its own; afterwards nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="e2b-stub-") as home:
        server = Server(dialect, Path(home))
        server.start()
        try:
            yield server
        finally:
            server.end()
        assert (server.containers(), server.images()) == ([], [])
