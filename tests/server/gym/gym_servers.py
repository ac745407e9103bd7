"""The servers of an episode as users start them, each a process of its own; and what is posted to them."""

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
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from swe_sdk.checkpoint.coordinator import Coordinator
from swe_sdk.server.control.client import HttpParticipant

STARTS_WITHIN_S = 60.0
SECRET = "a secret that servers share in the tests"
_numbers = count()


class GymProcess:
    """One server at a free port. ``home`` has its log and, where it makes sandboxes, their state."""

    def __init__(self, home: Path, kind: str, *arguments: str, **env: str) -> None:
        self.home = home
        self.log = home / f"{kind}-{next(_numbers)}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "swe_sdk", "gym", kind, *arguments],
                env={**os.environ, "SWE_SDK_STATE": str(home / "state"), **env},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._url = ""

    @property
    def url(self) -> str:
        """Where it listens, as soon as it does."""
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not self._url:
            found = re.search(r"serving \w+ at (\S+)", self.log.read_text())
            self._url = found[1] if found else ""
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)
        return self._url

    def client(self, **headers: str) -> httpx.Client:
        """A client of it, which waits for long."""
        return httpx.Client(base_url=self.url, headers=headers, timeout=120, verify=_no_certificates())

    def kill(self) -> None:
        """Without a word."""
        self.process.kill()
        self.process.wait(20)

    def stop(self, number: int = signal.SIGTERM, within_s: float = 60.0) -> int:
        """Tell it to stop; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(within_s)


@cache
def _no_certificates() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@asynccontextmanager
async def coordinated(servers: Mapping[str, GymProcess], token: str) -> AsyncIterator[Coordinator]:
    """A coordinator of servers that take part in checkpoints."""
    async with AsyncExitStack() as stack:
        found = {name: HttpParticipant(one.url, token=token) for name, one in servers.items()}
        for participant in found.values():
            await stack.enter_async_context(participant)
        yield Coordinator(found)


def boxes_of(home: Path) -> list[str]:
    """Sandboxes whose files are there."""
    return [path.name for path in (home / "state" / "boxes").glob("*/*")]


def wait_for(what: Callable[[], Any], within_s: float = 30.0) -> Any:
    """The first value that is true."""
    deadline = time.monotonic() + within_s
    while not (found := what()):
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
    return found


# -- a client that knows the routes ------------------------------------------------------------------------------------


def episode_body(rollout: str, task: str, *, attempt: int = 0, prompt: str = "", **task_data: Any) -> dict[str, Any]:
    """A native request of one turn."""
    params: dict[str, Any] = {"input": [{"role": "user", "content": prompt}]} if prompt else {"input": []}
    return {
        "episode_id": {"rollout_id": rollout, "attempt": attempt},
        "task": {
            "task_id": {"taskset": "tests", "task_id": task},
            "task_input": {"responses_create_params": params, "task_data": task_data},
        },
    }


def seed_body(rollout: str, task: str, *, attempt: int = 0, **extra: Any) -> dict[str, Any]:
    """A seed of a resources session."""
    episode = {"rollout_id": rollout, "attempt": attempt}
    return {"episode_id": episode, "task_id": {"taskset": "tests", "task_id": task}, "task_data": {}, **extra}


def verify_body(rollout: str, task: str, *, attempt: int = 0, patch: str | None = None) -> dict[str, Any]:
    """A verification of a session; without a patch, what its sandbox holds."""
    response = {
        "id": "r",
        "object": "response",
        "output": [],
        "metadata": {} if patch is None else {"model_patch": patch},
    }
    asked = {"responses_create_params": {"input": []}, "response": response}
    seed = seed_body(rollout, task, attempt=attempt)
    return {"episode_id": seed["episode_id"], "task_id": seed["task_id"], "verification_input": asked}


class Post(threading.Thread):
    """A post made in the background; no answer where the server goes away."""

    def __init__(self, server: GymProcess, path: str, body: Any) -> None:
        super().__init__(daemon=True)
        self._server, self._path, self._body = server, path, body
        self.answer: httpx.Response | None = None
        self.start()

    def run(self) -> None:
        """In its thread."""
        with self._server.client() as client, suppress(httpx.TransportError):
            self.answer = client.post(self._path, json=self._body)

    def result(self) -> dict[str, Any]:
        """The answer, as soon as it is there."""
        self.join(120)
        assert self.answer is not None
        assert self.answer.status_code == 200, self.answer.text
        found: dict[str, Any] = self.answer.json()
        return found


def mcp_call(client: httpx.Client, token: str | None, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a tool call, as the protocol has it."""
    headers = {} if token is None else {"X-NeMo-Gym-Session-Token": token}
    params = {"name": tool, "arguments": arguments}
    answer = client.post(
        "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers=headers
    )
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["result"]
    return found


def script(*actions: dict[str, Any]) -> str:
    """Settings of the scripted agent."""
    return json.dumps({"actions": list(actions)})
