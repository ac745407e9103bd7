"""Checkpoints of sandboxes in both dialects: saved, restored, released; memory only of harnesses that are parked."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from swe_sdk.checkpoint import SandboxCheckpointer
from swe_sdk.errors import SnapshotBusy, SnapshotNotFound
from swe_sdk.sandbox.providers.e2b.provider import E2BProvider
from tests.checkpoint.test_checkpoint_snapshots import a_life_with_two_checkpoints
from tests.sandbox.e2b.conftest import MakeBox
from tests.sandbox.e2b.stubs import Server

pytestmark = pytest.mark.anyio
_HARNESS = "while :; do date +%s.%N >> /tmp/steps; sleep 0.02; done"


async def test_export_restore_and_release(server: Server, e2b_provider: E2BProvider, tmp_path: Path) -> None:
    try:
        await a_life_with_two_checkpoints(e2b_provider, tmp_path)
        assert server.images() == []
    finally:
        await e2b_provider.aclose()


async def test_a_harness_is_parked_before_its_memory_is_saved(
    server: Server, make_box: MakeBox, e2b_provider: E2BProvider, tmp_path: Path
) -> None:
    """Files alone are taken of one that stands still; what goes on in a fork as a second harness is not taken."""
    boxes = SandboxCheckpointer(e2b_provider, state_dir=tmp_path)
    box = await make_box(workdir="/tmp")
    boxes.add("agent", box)
    harness = await box.start(_HARNESS)
    await _until_it_steps(boxes)
    if server.dialect == "agentenv":
        with pytest.raises(SnapshotBusy, match="sh"):
            await boxes.capture_once(["agent"], checkpoint_id="early")
        assert (server.images(), list(boxes.failed)) == ([], ["agent"])
        await _until_it_steps(boxes)  # it goes on as if nothing had been
        await box.result(harness, timeout_s=0.0)
    states = await boxes.capture_once(["agent"], checkpoint_id="c1")
    (asked,) = server.requests(f"POST /sandboxes/{box.handle}/snapshots")
    assert asked["body"].get("memory") is (None if server.dialect == "agentenv" else False)

    again = SandboxCheckpointer(e2b_provider, state_dir=tmp_path)
    await again.restore(states)
    fork = again.get("agent")
    steps = await fork.read("steps")
    await anyio.sleep(0.2)
    assert await fork.read("steps") == steps != b"", "nobody takes steps there until a harness is started again"
    assert (await box.read("steps")).startswith(steps)
    await again.aclose()
    assert await boxes.release(frozenset()) == 1 + (server.dialect == "agentenv")
    with pytest.raises(SnapshotNotFound):
        await boxes.restore(states)


async def _until_it_steps(boxes: SandboxCheckpointer) -> None:
    box = boxes.get("agent")
    before = len((await box.exec("cat steps")).stdout)
    with anyio.fail_after(20):
        while len((await box.exec("cat steps")).stdout) <= before:
            await anyio.sleep(0.05)
