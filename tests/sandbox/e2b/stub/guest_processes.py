"""Programs that the stand-in for envd has started: their output, to whoever listens, and their end.

As envd does it: whoever stops listening ends nothing, a signal reaches the program itself and none of its children, and
a program is over when it has ended *and* everybody has closed its output.
"""

from __future__ import annotations

import base64
import os
import queue
import signal
import subprocess
import threading
import time
from typing import Any

import guest_files as files

Event = dict[str, Any]
BASE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Program:
    """One program, and who listens to it."""

    def __init__(self, config: dict[str, Any], tag: str | None, popen: subprocess.Popen[bytes]) -> None:
        self.config = config
        self.tag = tag
        self.popen = popen
        self.status: int | None = None
        self.ended = threading.Event()
        self._listeners: list[queue.SimpleQueue[Event]] = []
        self._lock = threading.Lock()
        self._end: Event | None = None

    def listen(self) -> queue.SimpleQueue[Event]:
        """From now on: what was printed before is lost."""
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        events.put({"start": {"pid": self.popen.pid}})
        with self._lock:
            self._listeners.append(events)
            if self._end is not None:
                events.put(self._end)
        return events

    def tell(self, event: Event) -> None:
        """Everybody who listens."""
        with self._lock:
            if "end" in event:
                self._end = event
            for events in self._listeners:
                events.put(event)

    def follow(self) -> None:
        """Pass its output on, and then its end. Returns at once; what it starts lasts as long as the program."""
        copiers = [
            threading.Thread(target=self._copy, args=(stream, name), daemon=True)
            for stream, name in ((self.popen.stdout, "stdout"), (self.popen.stderr, "stderr"))
        ]
        for copier in copiers:
            copier.start()
        threading.Thread(target=self._conclude, args=(copiers,), daemon=True).start()

    def _copy(self, stream: Any, name: str) -> None:
        with stream:
            while data := os.read(stream.fileno(), 1 << 15):
                self.tell({"data": {name: base64.b64encode(data).decode()}})

    def _conclude(self, copiers: list[threading.Thread]) -> None:
        for copier in copiers:
            copier.join()
        self.ended.wait()
        assert self.status is not None
        self.tell({"end": _ending(os.waitstatus_to_exitcode(self.status))})


def _ending(code: int) -> Event:
    if code < 0:
        told = f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"
        return {"exitCode": -1, "exited": False, "status": told, "error": told}
    told = f"exit status {code}"
    return {"exitCode": code, "exited": True, "status": told, **({"error": told} if code else {})}


class Programs:
    """All that run now."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self._running: dict[int, Program] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._reap, daemon=True).start()

    def start(self, request: dict[str, Any], user: str) -> Program:
        """``KeyError`` for an unknown user, ``OSError`` where it cannot be started."""
        config = request["process"]
        account = files.account(user)
        env = {"PATH": BASE_PATH, "HOME": account.pw_dir, "USER": user, "LOGNAME": user, **self.env}
        with self._lock:  # or its end might be seen before we know it
            popen = subprocess.Popen(
                [config["cmd"], *config.get("args", ())],
                cwd=config.get("cwd") or account.pw_dir,
                env={**env, **config.get("envs", {})},
                stdin=subprocess.PIPE if request.get("stdin") else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=[],
            )
            program = self._running[popen.pid] = Program(config, request.get("tag"), popen)
        return program

    def find(self, selector: dict[str, Any]) -> Program:
        """By pid or tag; ``LookupError`` where none runs."""
        with self._lock:
            for program in self._running.values():
                if program.popen.pid == selector.get("pid") or (program.tag and program.tag == selector.get("tag")):
                    return program
        raise LookupError(f"process with selector {selector} not found")

    def listed(self) -> list[Event]:
        """As ``List`` tells them."""
        with self._lock:
            return [
                {"config": program.config, "pid": pid, **({"tag": program.tag} if program.tag else {})}
                for pid, program in self._running.items()
            ]

    def signal(self, selector: dict[str, Any], number: int) -> None:
        """The program itself, and none of its children."""
        os.kill(self.find(selector).popen.pid, number)

    def _reap(self) -> None:
        """This is process 1: everybody's orphans are ours."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(0.005)
                continue
            with self._lock:
                program = self._running.pop(pid, None)
            if program is not None:
                program.status = status
                program.popen.returncode = os.waitstatus_to_exitcode(status)
                program.ended.set()
