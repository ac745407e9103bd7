"""CK-13, with a scripted agent: a run on real sandboxes, killed with SIGKILL again and again, and one that is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import anyio

from swe_sdk.checkpoint import catalog
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.checkpoint.real_run import PLAN, OnDisk
from tests.checkpoint.test_checkpoint_snapshots import clean_up_after_the_killed, there

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("SWE_SDK_CHECKPOINT_KILLS", "3"))


def start(state: Path, directory: Path) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-m", "tests.checkpoint.real_run", str(state), str(directory)]
    return subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told.decode()


def wait_for_a_save(process: subprocess.Popen[bytes], directory: Path, n_before: int) -> None:
    """Until there is a checkpoint that was not there before, or the run has ended."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        newer = [one for one in catalog.listing(directory) if one.details.number > n_before]
        if any(one.status == "complete" for one in newer):
            return
        time.sleep(0.005)


def test_a_killed_run_comes_to_the_same_as_one_that_was_not(
    local_provider: LocalProvider, state: Path, tmp_path: Path
) -> None:
    before, random = anyio.run(there, local_provider), Random(7)
    finish(start(state, tmp_path / "whole"))
    killed = tmp_path / "killed"
    deaths = 0
    for _ in range(KILLS):
        numbers = [one.details.number for one in catalog.listing(killed / "checkpoints")]
        with start(state, killed) as process:
            wait_for_a_save(process, killed / "checkpoints", max(numbers, default=0))
            time.sleep(random.uniform(0, 0.2))
            deaths += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.communicate()
    finish(start(state, killed))
    once = list(range(1, PLAN.steps + 1))
    for directory in (tmp_path / "whole", killed):
        results = dict(OnDisk(directory / "results"))
        assert results == {
            f"r{number}": {"response": {"steps": PLAN.steps}, "log": once, "rows": once}
            for number in range(PLAN.rollouts)
        }
    assert deaths >= KILLS // 2
    assert max(OnDisk(killed / "attempts").values()) > 1, "nothing was restored"
    clean_up_after_the_killed(local_provider, tmp_path)
    assert anyio.run(there, local_provider) == before, "0 snapshots are left"
