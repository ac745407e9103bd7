"""Processes for tests of leases: each is a program of its own, which says what it did and may then be killed."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
_PRELUDE = """
import anyio, json, os, signal, sys, time
from pathlib import Path
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.reaper import reap
from tests.sandbox.leases.engines import DirectoryEngine, make_box, restore

def say(**facts): print(json.dumps(facts), flush=True)
def wait(): sys.stdin.read()
def die(): os.kill(os.getpid(), signal.SIGKILL)

book = LeaseBook(Path(sys.argv[1]) / "book")
engine = DirectoryEngine(sys.argv[1] + "/engine")
"""

THREE_BOXES = """
boxes = [make_box(book, engine) for _ in range(3)]
say(leases=[box.id for box in boxes])
wait()
"""


class Program:
    """A started one."""

    def __init__(self, body: str, folder: Path, prefix: tuple[str, ...] = ()) -> None:
        code = _PRELUDE + textwrap.dedent(body)
        # newer Pythons warn of forks in programs with threads, which every program with leases is
        strict = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
        command = [*prefix, sys.executable, *strict, "-c", code, str(folder)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)

    def heard(self) -> dict[str, Any]:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return json.loads(line)  # type: ignore[no-any-return]

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.communicate()

    def end(self) -> str:
        """Let it go on to its end; what it printed last."""
        out, err = self.process.communicate(timeout=60)
        assert (self.process.returncode, err) == (0, "")
        return out


Start = Callable[..., Program]


@contextmanager
def starting(folder: Path) -> Iterator[Start]:
    """Start programs on the book and the engine in ``folder``; none of them outlives the block."""
    started: list[Program] = []

    def start(body: str, *, prefix: tuple[str, ...] = ()) -> Program:
        started.append(Program(body, folder, prefix))
        return started[-1]

    try:
        yield start
    finally:
        for program in started:
            program.kill()
