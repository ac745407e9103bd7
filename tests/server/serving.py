"""``swe-sdk serve`` as users start it, a process with boxes of its own; and rows that are graded in no time."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tests.grading.tiny import GOLD, TEST_PATCH, UNAPPLIABLE, WRONG, change, make_repo

STARTS_WITHIN_S = 60.0
_numbers = count()
TOKEN = "a-token-of-the-tests"
NAME = "tiny__answer-1"


def tiny_row(repo: Path, name: str = NAME, **changes: Any) -> dict[str, Any]:
    """A row whose repository is written to ``repo``: ``answer = 42`` resolves it."""
    return {**row_without_source(name), "directory": str(make_repo(repo)), **changes}


def row_without_source(name: str = NAME) -> dict[str, Any]:
    """All of it but where its repository is."""
    return {
        "instance_id": name,
        "family": "swe-bench",
        "repo": "tiny/answer",
        "test_patch": TEST_PATCH.decode(),
        "FAIL_TO_PASS": ["check::answer"],
        "PASS_TO_PASS": ["check::runs"],
        "test_command": "sh tests/check.sh",
        "log_parser": "parse_log_pytest",
        "patch": GOLD.decode(),
        "wrong_patch": WRONG.decode(),
    }


def slow_row(repo: Path, seconds: float, name: str = "tiny__slow-1") -> dict[str, Any]:
    """The same, whose tests take their time."""
    return tiny_row(repo, name, test_command=f"sleep {seconds}; sh tests/check.sh")


@cache
def answer_patch(number: int) -> str:
    """One of any number of patches; only that of 42 resolves the task."""
    return change("src.txt", "answer = 41", f"answer = {number}").decode() if number != 41 else UNAPPLIABLE.decode()


def post_body(metadata: Mapping[str, Any], patch: str | None = None, text: str | None = None, **extra: Any) -> Any:
    """A request as NeMo Gym sends it; the patch in the metadata of the response, or a text of its message."""
    said = [] if text is None else [{"type": "output_text", "text": text, "annotations": []}]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": said}
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1764400000.0,
        "model": "a-model",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [message],
        "metadata": None if patch is None else {"model_patch": patch},
    }
    asked = {"input": [{"role": "user", "content": "Mend it."}], "metadata": dict(metadata)}
    return {"responses_create_params": asked, "response": response, **extra}


class ServerProcess:
    """A server at a free port, with everything of its own below ``home``."""

    def __init__(self, home: Path, *arguments: str, rows: list[dict[str, Any]] | None = None, **env: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        tasks = []
        if rows is not None:
            (home / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            tasks = [str(home / "tasks.jsonl")]
        self.home = home
        self.log = home / f"log-{next(_numbers)}"
        self._output = self.log.open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "swe_sdk", "serve", *tasks, "--port", "0", *arguments],
            env={**os.environ, "SWE_SDK_STATE": str(home / "state"), **env},
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.url = self._ready()

    def _ready(self) -> str:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while (found := re.search(r"serving at (\S+):", self.log.read_text())) is None:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        return found[1]

    def client(self, token: str | None = None, **settings: Any) -> httpx.Client:
        """A client of it, which waits for long."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=120, verify=_no_certificates(), **settings)

    def health(self) -> dict[str, Any]:
        """How it is."""
        with self.client() as client:
            found: dict[str, Any] = client.get("/health").json()
            return found

    def wait_until(self, **expected: int) -> dict[str, Any]:
        """The first health that shows these counts."""
        deadline = time.monotonic() + 30
        while True:
            shown = self.health()
            if expected.items() <= shown.items():
                return shown
            assert time.monotonic() < deadline, (expected, shown)
            time.sleep(0.02)

    def metric(self, name: str) -> float:
        """The value of one line of /metrics."""
        with self.client() as client:
            line = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
        return float(line[1]) if line else 0.0

    def peak_mib(self) -> float:
        """The most memory that it has had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", status)
        assert found is not None
        return int(found[1]) / 1024

    def stop(self, number: int = signal.SIGTERM, within_s: float = 60.0) -> int:
        """Tell it to stop; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(within_s)
        self._output.close()
        return code

    def left(self) -> list[str]:
        """Boxes, and what belongs to them, that the servers of its home have left behind; when all have ended."""
        state = self.home / "state"
        return [str(path) for name in ("boxes", "owners", "trash") for path in (state / name).glob("*")]

    def boxes(self) -> list[str]:
        """Boxes that are alive."""
        return [path.name for path in (self.home / "state" / "boxes").glob("*/*")]


@cache
def _no_certificates() -> ssl.SSLContext:
    """Reading those of the machine, which no test needs, takes each client some tenths of a second."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Poster(threading.Thread):
    """A post of its own, made in the background; no answer where the server goes away."""

    def __init__(self, server: ServerProcess, body: Any, path: str = "/verify", **settings: Any) -> None:
        super().__init__(daemon=True)
        self._server, self._body, self._path, self._settings = server, body, path, settings
        self.answer: httpx.Response | None = None
        self.start()

    def run(self) -> None:
        """In its thread."""
        with self._server.client(**self._settings) as client, suppress(httpx.TransportError):
            self.answer = client.post(self._path, json=self._body)

    def result(self) -> httpx.Response:
        """The answer, as soon as it is there."""
        self.join(120)
        assert self.answer is not None
        return self.answer
