"""The main process of several workers at its start and at its end, and what goes wrong there."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from swe_sdk.server.control.settings import ControlLimits
from swe_sdk.server.control.workers import WorkersParticipant, serving
from swe_sdk.server.control.workers.child import Order
from tests.server.control.crews import in_real_time
from tests.server.control.toy import ENDS


def main_process(place: Path, *arguments: str) -> subprocess.Popen[str]:
    (place / "token").write_text("a-token")
    command = [
        sys.executable,
        "-m",
        "swe_sdk.server.control.workers",
        "tests.server.control.toy:slow_to_end",
        "--kind",
        "agent",
    ]
    command += ["--instance", "a", "--workers", "2", "--token-file", str(place / "token"), *arguments]
    ends = place / "ends"
    ends.mkdir()
    return subprocess.Popen(
        command,
        env={**os.environ, ENDS: str(ends)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_workers_clean_up_however_often_they_are_told_to_stop(tmp_path: Path, end: signal.Signals) -> None:
    """Ctrl-C goes to the main process and to its workers, which the main process then stops as well."""
    process = main_process(tmp_path, "--port", "0")
    assert process.stdout is not None
    try:
        assert re.match(r"serving at \S+", process.stdout.readline())
        for _ in range(3):
            os.killpg(process.pid, end)
            time.sleep(0.2)
        said, _ = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, "")
        assert len(list((tmp_path / "ends").iterdir())) == 2
    finally:
        process.kill()
        process.wait()


def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = main_process(tmp_path, "--port", str(port))
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 2
    assert f"cannot listen at 127.0.0.1:{port}" in said
    assert "Traceback" not in said


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose path leaves room for the name of a socket."""
    with tempfile.TemporaryDirectory(prefix="swe_sdk-") as folder:
        yield Path(folder)


def test_a_sweep_spares_a_main_process_that_is_just_starting(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of one machine start at the same time, and each removes what killed ones have left."""
    monkeypatch.setattr(tempfile, "tempdir", str(short_path))
    listen = socket.socket.listen

    def listen_late(self: socket.socket, *arguments: Any) -> None:
        serving.sweep_folders()
        listen(self, *arguments)

    @in_real_time
    async def start() -> None:
        path = short_path / "swe_sdk-workers-starting" / "coordinator"
        path.parent.mkdir()
        async with WorkersParticipant("agent", "a", socket_path=path, expected=0):
            await (await anyio.connect_unix(path)).aclose()

    monkeypatch.setattr(socket.socket, "listen", listen_late)
    start()


@in_real_time
async def test_a_worker_that_cannot_be_started_is_started_later() -> None:
    """A machine that has no process left to give, for a moment, is no reason to end all that works."""
    tries: list[float] = []

    async def none_left(*_arguments: Any, **_settings: Any) -> Any:
        tries.append(anyio.current_time())
        raise BlockingIOError(11, "Resource temporarily unavailable")

    order = Order(factory="f:f", socket_path=Path("/nowhere"), listener=0, token="t", limits=ControlLimits())
    with pytest.MonkeyPatch.context() as patch, anyio.move_on_after(1):
        patch.setattr(anyio, "open_process", none_left)
        await serving._Processes(order, stop_s=1).keep_one()
    assert len(tries) >= 2
