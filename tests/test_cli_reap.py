"""``swe-sdk reap``: what dead programs have left, and what the exit code says of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.sandbox.test_local_reaping import KILLED


@pytest.fixture
def home(tmp_path, local_provider):
    """A state directory for commands that run here as processes."""
    return tmp_path / "state"


@pytest.fixture
def cli(home):
    """Run ``python -m swe_sdk`` to its end."""

    def run(*args):
        return run_python("-m", "swe_sdk", *args)

    def run_python(*args):
        environment = {**os.environ, "SWE_SDK_STATE": str(home)}
        command = [sys.executable, "-W", "error", *args]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    run.python = run_python
    return run


def boxes_in(report):
    """The boxes of this test: control groups are those of the whole machine."""
    return [item for item in report["items"] if item["handle"] and "/box-" in item["handle"]]


def test_boxes_of_a_killed_program(cli, home):
    owner = cli.python("-c", KILLED, str(home)).stdout.strip()
    dry = cli("reap", "--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    assert [item["action"] for item in boxes_in(json.loads(dry.stdout))] == ["would_remove"] * 3
    assert len(list((home / "boxes" / owner).iterdir())) == 3
    shown = cli("reap", "--provider", "local")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count(f"{owner}/box-") == 3
    assert "its owner is dead" in shown.stdout
    assert " removed, 0 failed, 0 kept, " in shown.stdout
    assert list((home / "boxes").iterdir()) == []
    again = json.loads(cli("reap", "--json").stdout)
    assert boxes_in(again) == []


def test_what_cannot_be_removed_is_an_exit_code(cli):
    intend = "from swe_sdk.sandbox.leases import LeaseBook; LeaseBook().intend('gone', handle='c0ffee')"
    assert cli.python("-c", intend).returncode == 0
    for arguments, code in ((("--dry-run",), 1), ((), 1), (("--provider", "local"), 0)):
        done = cli("reap", *arguments)
        assert done.returncode == code, done.stderr
        assert ("c0ffee" in done.stdout) is bool(code)
        assert ("unknown sandbox provider 'gone'" in " ".join(done.stdout.split())) is bool(code)


def test_an_unknown_provider_is_bad_input(cli, home):
    done = cli("reap", "--provider", "dockr")
    assert (done.returncode, done.stdout) == (2, "")
    assert "dockr" in done.stderr
    assert not home.exists()
