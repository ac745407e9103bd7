"""Checkpoints of sandboxes on a real OpenSandbox server: saved, restored, released; and killed in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio

from swe_sdk.checkpoint import catalog
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.reaper import reap
from tests.checkpoint.real_run import OnDisk
from tests.checkpoint.test_checkpoint_snapshots import a_life_with_two_checkpoints
from tests.sandbox.docker.images import debian_image
from tests.sandbox.opensandbox.osb_lab import ground
from tests.sandbox.opensandbox.run_on_opensandbox import PLAN
from tests.sandbox.opensandbox.server import Server, provider_settings

ROOT = Path(__file__).resolve().parents[3]
_SAVED_S = 120.0


def test_export_restore_and_release(osb_provider: OpenSandboxProvider, tmp_path: Path) -> None:
    async def test() -> None:
        try:
            await a_life_with_two_checkpoints(osb_provider, tmp_path)
        finally:
            await osb_provider.aclose()

    anyio.run(test)


def test_a_run_survives_the_death_of_the_sdk_and_of_the_server(
    osb_server: Server, osb_provider: OpenSandboxProvider, tmp_path: Path
) -> None:
    state = str(osb_server.home / "state")
    settings = json.dumps({**provider_settings(), "state": state, "base_image": debian_image()})
    command = [sys.executable, "-m", "tests.sandbox.opensandbox.run_on_opensandbox", settings, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        _wait_for_a_save(process, tmp_path)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    osb_server.kill()
    osb_server.start()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    once = list(range(1, PLAN.steps + 1))
    assert dict(OnDisk(tmp_path / "results")) == {
        f"r{number}": {"response": {"steps": PLAN.steps}, "log": once, "rows": once} for number in range(PLAN.rollouts)
    }
    assert max(OnDisk(tmp_path / "attempts").values()) > 1, "nothing was restored"
    anyio.run(_tidy, osb_provider, ground(), tmp_path / "state")


def _wait_for_a_save(process: subprocess.Popen[bytes], directory: Path) -> None:
    deadline = time.monotonic() + _SAVED_S
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr and process.stderr.read().decode()[-3000:]
        if any(one.status == "complete" for one in catalog.listing(directory / "checkpoints")):
            return
        time.sleep(0.02)
    raise AssertionError("nothing was saved")


async def _tidy(provider: OpenSandboxProvider, common: str, index: Path) -> None:
    """What the killed process has left, as ``swe-sdk reap`` does; the run itself has released its snapshots."""
    await reap(provider.leases, [provider], only=provider.name, grace_s=0.0)
    journal = (index / "snapshots.jsonl").read_text()
    assert {snapshot.id for snapshot in await provider.snapshots()} == {common}, journal
    await provider.aclose()
