"""The toy servers as processes of their own, killed together; and a trainer's rollouts over them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx

TOKEN = "a-token-of-the-tests"
KINDS = {"environment": 4, "agent": 2, "resources": 2}
"""Each server, and its workers."""
STARTS_WITHIN_S = 90.0


class Fleet:
    """One life of all servers."""

    def __init__(self, home: Path, workers: dict[str, int] | None = None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        (home / "token").write_text(TOKEN)
        self.home = home
        self.logs = {kind: home / f"{kind}-{time.monotonic_ns()}" for kind in KINDS}
        self.processes = {kind: self._start(kind, count) for kind, count in (workers or KINDS).items()}
        try:
            self.urls = {kind: self._ready(kind) for kind in self.processes}
        except BaseException:
            self.kill()
            raise

    def _start(self, kind: str, count: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "swe_sdk.server.control.workers", f"tests.server.control.toy:{kind}"]
        command += ["--kind", kind, "--instance", f"toy {kind}", "--workers", str(count), "--port", "0"]
        command += ["--token-file", str(self.home / "token"), "--checkpoint-root", str(self.home)]
        with self.logs[kind].open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def _ready(self, kind: str) -> str:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while (found := re.search(r"serving at (\S+)", self.logs[kind].read_text())) is None:
            assert self.processes[kind].poll() is None, self.logs[kind].read_text()
            assert time.monotonic() < deadline, self.logs[kind].read_text()
            time.sleep(0.05)
        return found[1]

    def workers(self, kind: str) -> list[int]:
        """The pids of its workers."""
        pid = self.processes[kind].pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def kill(self) -> None:
        """SIGKILL to all, main processes and workers, as when a machine goes down."""
        for process in self.processes.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)

    def stop(self) -> None:
        """SIGTERM to the main processes; each takes its workers with it."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            assert process.wait(30) == 0

    def said(self) -> str:
        """All logs."""
        return "\n".join(log.read_text() for log in self.logs.values())


class Rollouts:
    """What a trainer writes down, so that it outlives everything."""

    def __init__(self, names: list[str], *, steps: int, pace_s: float) -> None:
        self.names = names
        self.steps = steps
        self.pace_s = pace_s
        self.attempts = dict.fromkeys(names, -1)
        self.results: dict[str, Any] = {}
        self.refusals: list[str] = []
        self.turned_away: set[str] = set()
        """Who came while a checkpoint was open, and came again."""

    async def run(self, fleet: Fleet, name: str) -> None:
        """The next attempt of a rollout; nothing where the servers are killed meanwhile."""
        self.attempts[name] += 1
        task = {"steps": self.steps, "pace_s": self.pace_s}
        servers = {"agent": fleet.urls["agent"], "logs": fleet.urls["resources"]}
        body = {"episode": {"rollout_id": name, "attempt": self.attempts[name]}, "task": task, "servers": servers}
        with suppress(httpx.TransportError):
            async with httpx.AsyncClient(timeout=300, verify=False) as client:
                while _is_closed(answer := await client.post(f"{fleet.urls['environment']}/run", json=body)):
                    self.turned_away.add(name)
                    await anyio.sleep(0.05)
                if answer.status_code != 200:
                    self.refusals.append(f"{name}: {answer.status_code} {answer.text}")
                    return
                assert name not in self.results, f"{name} has two results"
                self.results[name] = answer.json()

    @property
    def left(self) -> list[str]:
        return [name for name in self.names if name not in self.results]

    async def all_done(self, within_s: float) -> None:
        with anyio.fail_after(within_s):
            while self.left:
                assert self.refusals == [], self.refusals
                await anyio.sleep(0.05)


def _is_closed(answer: httpx.Response) -> bool:
    """Whether a checkpoint is open, so that an episode has to be asked for again once it is over."""
    return answer.status_code == 409 and answer.json()["error"]["code"] == "admission_closed"
