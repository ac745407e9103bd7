"""Only the supervisor that was started for it is let in, and nobody after it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from swe_sdk.errors import CreateFailed
from swe_sdk.sandbox.providers.docker.arrival import Arrival, forget_stale

pytestmark = pytest.mark.anyio
VISIT = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.sendall(sys.argv[2].encode())"


def visitor(arrival: Arrival, says: str) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", f"{VISIT}; s.recv(1)", str(arrival.directory / "socket"), says]
    return subprocess.Popen(program, stderr=subprocess.DEVNULL)


async def test_only_the_named_process_is_let_in(tmp_path: Path) -> None:
    with Arrival(tmp_path / "deep" / ("x" * 200)) as arrival:
        impostor = socket.socket(socket.AF_UNIX)
        fd = os.open(arrival.directory, os.O_PATH)
        impostor.connect(f"/proc/self/fd/{fd}/socket")
        impostor.sendall(b"+")
        impostor.settimeout(5)
        with anyio.move_on_after(0.2) as waiting:
            await arrival.accept(1)
        assert waiting.cancelled_caught
        assert _hung_up(impostor)
        impostor.close()
        os.close(fd)
    with Arrival(tmp_path / "short") as arrival, visitor(arrival, "+") as child:
        with anyio.fail_after(10):
            control = await arrival.accept(child.pid)
        control.close()
    assert not (tmp_path / "short").exists()


def _hung_up(visitor: socket.socket) -> bool:
    try:
        return visitor.recv(1) == b""
    except ConnectionResetError:  # what it had said was not read
        return True


async def test_waiting_may_be_interrupted_and_go_on(tmp_path: Path) -> None:
    with Arrival(tmp_path / "b") as arrival, visitor(arrival, "") as child:
        with anyio.move_on_after(1.0) as waiting:
            await arrival.accept(child.pid)
        assert waiting.cancelled_caught
        assert child.poll() is None, "it was not hung up on"
        child.kill()
        with pytest.raises(CreateFailed, match="it died"):
            await arrival.accept(child.pid)


async def test_a_supervisors_last_word_is_told(tmp_path: Path) -> None:
    with Arrival(tmp_path / "b") as arrival, visitor(arrival, "-no such call") as child:
        with pytest.raises(CreateFailed, match="no such call"):
            await arrival.accept(child.pid)
        child.kill()


def test_what_dead_processes_left_is_forgotten(tmp_path: Path) -> None:
    for name, age_s in (("old", 7200), ("young", 60)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "socket").touch()
        os.utime(tmp_path / name, (0, time.time() - age_s))
    forget_stale(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["young"]
