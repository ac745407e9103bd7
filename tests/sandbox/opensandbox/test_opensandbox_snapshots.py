"""Pauses, snapshots and forks on a real OpenSandbox server."""

from __future__ import annotations

import time
from itertools import pairwise

import anyio
import pytest

from swe_sdk.errors import SandboxError, SnapshotBusy, SnapshotNotFound
from swe_sdk.model.ids import new_id
from swe_sdk.sandbox.leases import LABEL_LEASE
from swe_sdk.sandbox.providers.opensandbox.provider import OpenSandboxProvider
from swe_sdk.sandbox.providers.remote.labels import BOX
from swe_sdk.sandbox.reaper import reap
from tests.sandbox.opensandbox.osb_lab import (
    MakeBox,
    container_of,
    docker_lines,
    inspected,
)
from tests.sandbox.opensandbox.server import SNAPSHOT_IMAGES

pytestmark = pytest.mark.anyio
SECRET = "do-not-keep-me-7f3a"


async def test_a6_nothing_that_is_sent_to_a_paused_box_runs_later(osb_box: MakeBox) -> None:
    box = await osb_box()
    await box.exec("true")
    async with anyio.create_task_group() as tasks:

        async def late(number: int) -> None:
            try:
                await box.exec(f"touch /tmp/started{number}; sleep 0.1; touch /tmp/ran{number}")
            except SandboxError:
                pass  # refused, as it should be where it comes too late

        for number in range(5):
            tasks.start_soon(late, number)
        await box.pause()
        begin = time.monotonic()
        with pytest.raises(SandboxError, match="paused"):
            await box.exec("touch /tmp/never")
        assert time.monotonic() - begin < 0.1
        assert inspected(container_of(box))["State"]["Paused"]
        await box.resume()
    found = (await box.exec("sleep 0.5; ls /tmp")).stdout.split()
    assert "never" not in found
    assert {name.replace("started", "ran") for name in found if name.startswith("started")} <= set(found)


async def test_a7_a_paused_box_is_frozen_and_nothing_in_it_runs_meanwhile(
    osb_provider: OpenSandboxProvider, osb_box: MakeBox
) -> None:
    box = await osb_box()
    await box.exec("(while :; do date +%s.%N >> /tmp/clock; sleep 0.02; done) > /dev/null 2>&1 &")
    with pytest.raises(SnapshotBusy, match="pause it"):
        await osb_provider.snapshot(box)
    await anyio.sleep(0.2)
    await box.pause()
    snapshot = await osb_provider.snapshot(box)
    assert await box.status() == "paused"
    assert inspected(container_of(box))["State"]["Paused"]
    fork = await osb_box(snapshot=snapshot.id)
    frozen = await fork.read("/tmp/clock")
    assert await fork.processes() == []
    await box.resume()
    await anyio.sleep(0.2)
    clock = await box.read("/tmp/clock")
    assert frozen
    assert clock.startswith(frozen)
    assert len(clock) > len(frozen)
    times = [float(line) for line in clock.split()]
    stood_still = max(later - earlier for earlier, later in pairwise(times))
    assert stood_still > 0.3, "it ran between the pause and the snapshot"
    await fork.close()
    await osb_provider.delete_snapshot(snapshot.id)


async def test_a8_the_same_checkpoint_twice_is_one_snapshot(
    osb_provider: OpenSandboxProvider, osb_box: MakeBox
) -> None:
    box, wanted = await osb_box(), new_id("snap")
    before = docker_lines("images", "-q", SNAPSHOT_IMAGES)
    first = await osb_provider.snapshot(box, snapshot_id=wanted)
    await box.exec("echo later > /tmp/f")
    assert await osb_provider.snapshot(box, snapshot_id=wanted) == first
    assert [one for one in await osb_provider.snapshots() if one.id == wanted] == [first]
    assert len(docker_lines("images", "-q", SNAPSHOT_IMAGES)) == len(before) + 1
    await osb_provider.delete_snapshot(wanted)


async def test_a9_a_fork_is_its_owners_and_not_its_origins(osb_provider: OpenSandboxProvider, osb_box: MakeBox) -> None:
    origin = await osb_box(labels={"run": "A", "task": "one"})
    snapshot = await osb_provider.snapshot(origin)
    fork = await osb_box(snapshot=snapshot.id, labels={"run": "B"})
    found = await osb_provider.engine.find(fork.handle)
    assert found is not None
    assert (found.metadata["swe_sdk.run"], found.metadata["swe_sdk.task"]) == ("B", "")
    assert (found.metadata[LABEL_LEASE], found.metadata[BOX]) == (fork.lease.id, fork.id)
    of_a = await osb_provider.engine.sandboxes({"swe_sdk.run": "A"})
    assert [one.id for one in of_a] == [origin.handle]
    await origin.close()
    await reap(osb_provider.leases, [osb_provider], only=osb_provider.name)
    assert await fork.status() == "running"
    await fork.close()
    await osb_provider.delete_snapshot(snapshot.id)


async def test_a10_no_secret_is_in_a_snapshot(osb_provider: OpenSandboxProvider, osb_box: MakeBox) -> None:
    box = await osb_box(env={"SPEC_TOKEN": SECRET}, labels={"task": "t"})
    assert (await box.exec('echo "$SPEC_TOKEN $TOKEN"', env={"TOKEN": SECRET})).stdout == f"{SECRET} {SECRET}\n"
    await box.exec("cat", stdin=SECRET.encode() * 2000)
    snapshot = await osb_provider.snapshot(box)
    assert SECRET not in str(inspected(container_of(box)))
    for image in docker_lines("images", "-q", SNAPSHOT_IMAGES):
        assert SECRET not in str(inspected(image))
    fork = await osb_box(snapshot=snapshot.id)
    found = await fork.exec(["grep", "-rlF", SECRET, "/.swe_sdk", "/tmp", "/root", "/dev/shm", "/opt"])
    assert found.stdout == ""
    assert (await fork.exec("env")).stdout.count(SECRET) == 0
    await fork.close()
    await osb_provider.delete_snapshot(snapshot.id)


async def test_a11_a_snapshot_in_use_is_deleted_when_that_is_over(
    osb_provider: OpenSandboxProvider, osb_box: MakeBox
) -> None:
    box = await osb_box()
    await box.write("/tmp/f", b"kept")
    snapshot = await osb_provider.snapshot(box)
    fork = await osb_box(snapshot=snapshot.id)
    await osb_provider.delete_snapshot(snapshot.id)
    assert len(await osb_provider.engine.snapshots(snapshot.id)) == 1
    assert snapshot.id not in {one.id for one in await osb_provider.snapshots()}
    with pytest.raises(SnapshotNotFound):
        await osb_box(snapshot=snapshot.id)
    assert await fork.read("/tmp/f") == b"kept"
    await osb_provider.delete_snapshot(snapshot.id)
    await fork.close()
    await osb_provider.collect()
    assert await osb_provider.engine.snapshots(snapshot.id) == []
    await osb_provider.delete_snapshot(snapshot.id)
