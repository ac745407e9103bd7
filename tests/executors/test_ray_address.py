from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from swe_sdk.errors import PrerequisiteError
from swe_sdk.executors.ray.address import require_answer
from tests.executors.engines import need_package


def test_a_cluster_that_does_not_answer_is_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(PrerequisiteError, match="ray start --head"):
        require_answer("auto")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(f"{address}\n")
        require_answer("auto")
        require_answer(address)
    with pytest.raises(PrerequisiteError, match=re.escape(address)):
        require_answer("auto")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(PrerequisiteError, match=re.escape("127.0.0.1:1")):
        require_answer("auto")
    require_answer("local")


def test_forms_of_ray_are_left_to_ray_and_brackets_are_no_part_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def connected(address: tuple[str, int], _timeout_s: float) -> socket.socket:
        asked.append(address)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connected)
    require_answer("ray://127.0.0.1:1")
    require_answer("[::1]:6379")
    assert asked == [("::1", 6379)]


def test_the_command_line_says_so_at_once(tmp_path: Path) -> None:
    need_package("ray")
    command = [sys.executable, "-m", "swe_sdk", "grade", "mini", "--executor", "ray", "--results", str(tmp_path)]
    env = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    assert (done.returncode, "ray start --head" in done.stderr) == (2, True), done.stderr
