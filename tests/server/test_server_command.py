"""``swe-sdk serve`` with arguments that make no sense, or on a machine that lacks something: a line, and code 2."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from swe_sdk.cli import main
from tests.server.conftest import StartServer


def serve(state: Path, *arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    program = f"import sys; {before}; from swe_sdk.cli import main; sys.exit(main(['serve', *sys.argv[1:]]))"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, "--port", "0", *arguments],
        env={**os.environ, "SWE_SDK_STATE": str(state)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--host", "0.0.0.0"), "--token-file"),
        (("--host", "::"), "--token-file"),
        (("--token-file", "no-such-file"), "no-such-file"),
        (("--token-file", "/dev/null"), "empty"),
        (("--only-loaded",), "TASKS"),
        (("--workers", "0"), "workers"),
        (("--timeout", "-1"), "tests_timeout_s"),
        (("--provider", "dockr"), "docker"),
        (("--base-image", "x"), "container providers"),
        (("no-such-tasks",), "no-such-tasks"),
        (("--policy", "kind"), "policy"),
        (("--set", "patience_s"), "NAME=VALUE"),
        (("--set", "token=x"), "--token-file"),
        (("--set", "patience_s=long"), "patience_s"),
        (("--set", "patients=1"), "patients"),
        (("--host", "256.1.1.1", "--no-token"), "256.1.1.1"),
    ],
)
def test_what_makes_no_sense_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("swe-sdk: ")
    assert says in said.err
    assert said.err.count("\n") == 1


def test_a_place_for_results_that_cannot_be(tmp_path: Path) -> None:
    done = serve(tmp_path / "state", "--results", "/dev/null/x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/dev/null/x" in done.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = serve(tmp_path / "state", "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "choose another port" in done.stderr


def test_the_missing_extra_is_named(tmp_path: Path) -> None:
    done = serve(tmp_path / "state", before="sys.modules['prometheus_client'] = None")
    assert done.returncode == 2
    assert "pip install 'swe_sdk[server]'" in done.stderr


def test_without_metrics_nothing_is_missing(start: StartServer, tmp_path: Path) -> None:
    server = start("--no-metrics")
    with server.client() as client:
        assert client.get("/metrics").status_code == 404
        assert "/metrics" not in client.get("/openapi.json").json()["paths"]


def test_all_addresses_with_a_token(start: StartServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    server = start("--host", "0.0.0.0", "--token-file", str(tmp_path / "token"))
    assert server.url.startswith("http://0.0.0.0:")
    assert server.health()["status"] == "ok"
