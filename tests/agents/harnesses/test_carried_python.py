"""The interpreter that comes with a harness runs in boxes that hold no Python, and not even a C library."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from swe_sdk.agents.harnesses import HARNESSES
from swe_sdk.agents.harnesses.python_packages import PythonPackages
from tests.agents.harness_lab import need_harness_installed
from tests.sandbox.docker.images import busybox_image

SCRIPT = """
import ctypes, json, sqlite3, ssl, sys, zlib
from openhands.sdk import Agent
from openhands.tools.terminal import TerminalTool
print(json.dumps([sys.version_info >= (3, 12), sys.prefix, TerminalTool.name, Agent.__module__]))
"""


@pytest.mark.timeout(300)
def test_it_runs_where_nothing_else_does(tmp_path: Path) -> None:
    directory = need_harness_installed("openhands")
    harness = HARNESSES["openhands"]
    assert isinstance(harness, PythonPackages)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [
            "docker", "run", "--rm", "--network=none", "--read-only", "--tmpfs=/tmp", "--env=HOME=/tmp",
            "--env=LITELLM_LOCAL_MODEL_COST_MAP=True", "--env=OPENHANDS_SUPPRESS_BANNER=1",
            f"--volume={directory}:/any/where:ro", f"--volume={tmp_path}/script.py:/script.py:ro", busybox_image(),
            *harness.run("/any/where", "/script.py"),
        ],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == '[true, "/any/where/python", "terminal", "openhands.sdk.agent.agent"]'
