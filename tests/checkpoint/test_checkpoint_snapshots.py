"""Snapshots of sandboxes: the index, real local sandboxes, a few real containers, and a process that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from swe_sdk.checkpoint import SandboxCheckpointer, audit, sweep
from swe_sdk.checkpoint.snapshots.checkpointer import SandboxState
from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.errors import CapabilityMissing, CreateFailed, SandboxLost, SnapshotNotFound
from swe_sdk.sandbox.contract import Box, SandboxProvider, SandboxSpec, Snapshot, SupportsSnapshots
from swe_sdk.sandbox.leases import LeaseBook
from swe_sdk.sandbox.providers.docker.provider import DockerProvider
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from swe_sdk.sandbox.reaper import reap
from swe_sdk.testing import FakeProvider, Fault
from tests.checkpoint.house import refused
from tests.checkpoint.virtual import simulated
from tests.sandbox.docker.images import debian_image, need_engine

FILE = "/tmp/state"


async def text(boxes: SandboxCheckpointer, session: str) -> str:
    return (await boxes.get(session).read(FILE)).decode()


async def fill(boxes: SandboxCheckpointer, provider: SandboxProvider, *sessions: str) -> None:
    for session in sessions:
        box = await provider.create(SandboxSpec(workdir="/tmp"))
        boxes.add(session, box)
        await box.write(FILE, f"first of {session}".encode())


async def there(provider: SandboxProvider) -> set[str]:
    assert isinstance(provider, SupportsSnapshots)
    return {snapshot.id for snapshot in await provider.snapshots()}


async def a_life_with_two_checkpoints(provider: SandboxProvider, state_dir: Path) -> None:
    """Saved twice, restored from both, released by reference; on any provider."""
    boxes = SandboxCheckpointer(provider, state_dir=state_dir)
    await fill(boxes, provider, "a", "b")
    first = await boxes.capture_once(["a", "b"], checkpoint_id="c1")
    assert await boxes.capture_once(["a", "b"], checkpoint_id="c1") == first, "a retry freezes nothing again"
    boxes.admission_opened()
    await boxes.get("a").write(FILE, b"second")
    second = await boxes.capture_once(["a"], checkpoint_id="c2")
    ours = {state.snapshot_id for state in (*first.values(), *second.values())}
    assert len(ours) == 3
    await boxes.get("a").write(FILE, b"third")

    for states, wanted in ((first, "first of a"), (second, "second")):
        again = SandboxCheckpointer(provider, state_dir=state_dir)
        await again.restore(states)
        assert await text(again, "a") == wanted
        await again.get("a").write(FILE, b"changed")
        await again.aclose()

    assert await boxes.release(frozenset({"c1", "c2"})) == 0
    assert await boxes.release(frozenset({"c2"})) == 2
    assert await there(provider) & ours == {second["a"].snapshot_id}  # others use the engine as well
    with pytest.raises(SnapshotNotFound):
        await boxes.restore(first)
    assert await text(boxes, "a") == "third", "a live sandbox needs none of them"
    assert await boxes.release(frozenset()) == 1
    assert await there(provider) & ours == set()
    await boxes.aclose()


def test_local_sandboxes(local_provider: LocalProvider, tmp_path: Path) -> None:
    anyio.run(a_life_with_two_checkpoints, local_provider, tmp_path)


def test_containers(tmp_path: Path) -> None:
    need_engine()
    provider = DockerProvider(state=tmp_path / "docker", base_image=debian_image())

    async def test() -> None:
        try:
            await a_life_with_two_checkpoints(provider, tmp_path / "state")
        finally:
            await provider.aclose()

    anyio.run(test)


def test_memory(tmp_path: Path) -> None:
    anyio.run(a_life_with_two_checkpoints, FakeProvider(), tmp_path)


def test_a_sandbox_in_which_something_runs_is_paused_frozen_and_goes_on(
    local_provider: LocalProvider, tmp_path: Path
) -> None:
    async def test() -> None:
        boxes = SandboxCheckpointer(local_provider, state_dir=tmp_path)
        await fill(boxes, local_provider, "a")
        box = boxes.get("a")
        loop = f"nohup sh -c 'while true; do echo x >> {FILE}; sleep 0.05; done' >/dev/null 2>&1 &"
        assert (await box.exec(loop)).ok
        states = await boxes.capture_once(["a"], checkpoint_id="c1")
        assert await box.status() == "running"
        length = len(await box.read(FILE))
        with anyio.fail_after(10):
            while len(await box.read(FILE)) == length:
                await anyio.sleep(0.05)
        again = SandboxCheckpointer(local_provider, state_dir=tmp_path)
        await again.restore(states)
        assert len(await again.get("a").read(FILE)) <= length
        await again.aclose()
        await boxes.aclose()
        await boxes.release(frozenset())

    anyio.run(test)


@simulated
async def test_what_has_not_changed_is_not_frozen_again_and_stays_while_anything_refers_to_it(tmp_path: Path) -> None:
    provider = FakeProvider()
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path)
    box = await provider.create(SandboxSpec())
    boxes.add("own", box, is_lent=False)
    states = await boxes.capture_once(["own"], checkpoint_id="c1")
    boxes.admission_opened()
    assert await boxes.capture_once(["own"], checkpoint_id="c2") == states
    assert provider.calls["snapshot"] == 1
    assert await boxes.release(frozenset({"c2"})) == 0, "by reference, and not by name"
    boxes.touch("own")
    assert await boxes.capture_once(["own"], checkpoint_id="c3") != states
    assert await boxes.release(frozenset({"c3"})) == 1
    assert await boxes.release(frozenset()) == 1
    assert await boxes.capture_once(["own"], checkpoint_id="c4") != states, "what was deleted is not referred to"
    assert len(await there(provider)) == 1


@simulated
async def test_a_restore_is_all_or_nothing(tmp_path: Path) -> None:
    provider = FakeProvider(faults=[Fault("create", nth=6, error=CreateFailed("no room"))])
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path)
    await fill(boxes, provider, "a", "b", "c")
    states = await boxes.capture_once(["a", "b", "c"], checkpoint_id="c1")
    await boxes.aclose()
    again = SandboxCheckpointer(provider, state_dir=tmp_path)
    with pytest.raises(CreateFailed):
        await again.restore(states)
    assert provider.live == ()
    assert again.sessions == ()
    await again.restore(states)
    assert len(provider.live) == 3


@simulated
async def test_everything_is_looked_at_before_the_first_fork(tmp_path: Path) -> None:
    provider = FakeProvider()
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path)
    await fill(boxes, provider, "a", "b")
    states = await boxes.capture_once(["a", "b"], checkpoint_id="c1")
    made = provider.calls["create"]
    gone = states["b"].model_copy(update={"snapshot_id": "snap-000000000000"})
    with pytest.raises(SnapshotNotFound):
        await boxes.restore({"a": states["a"], "b": gone})
    with refused("invalid_checkpoint_state"):
        await boxes.restore({"a": states["a"].model_copy(update={"provider_name": "docker"})})
    with refused("invalid_checkpoint_state"):
        await boxes.restore_session_states({"a": {"odd": 1}})
    assert provider.calls["create"] == made


@simulated
async def test_a_restore_replaces_a_sandbox_and_closes_it_before_admission_opens(tmp_path: Path) -> None:
    provider = FakeProvider()
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path)
    await fill(boxes, provider, "a")
    states = await boxes.capture_once(["a"], checkpoint_id="c1")
    await boxes.restore(states)
    assert len(provider.live) == 2
    await boxes.settle()
    assert len(provider.live) == 1


@simulated
async def test_a_failed_snapshot_fails_the_export_and_what_was_made_is_released(tmp_path: Path) -> None:
    provider = FakeProvider(faults=[Fault("snapshot", nth=2, error="reply_lost")])
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path)
    await fill(boxes, provider, "a", "b", "c")
    with pytest.raises(SandboxLost):
        await boxes.capture_once(["a", "b", "c"], checkpoint_id="c1")
    assert len(await there(provider)) >= 2
    assert (await audit(tmp_path, provider, kept=[])).unneeded == tuple(sorted(await there(provider)))
    await boxes.release(frozenset())
    assert await there(provider) == set()


@simulated
async def test_no_more_are_frozen_at_once_than_allowed(tmp_path: Path) -> None:
    class Counts(FakeProvider):
        now = most = 0

        async def snapshot(self, box: Box, *, snapshot_id: str | None = None) -> Snapshot:
            self.now += 1
            self.most = max(self.most, self.now)
            await anyio.sleep(1)
            self.now -= 1
            return await super().snapshot(box, snapshot_id=snapshot_id)

    provider = Counts()
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path, parallelism=4)
    await fill(boxes, provider, *(f"s{number}" for number in range(10)))
    started = anyio.current_time()
    await boxes.capture_once(boxes.sessions, checkpoint_id="c1")
    assert provider.most == 4
    assert anyio.current_time() - started == pytest.approx(3, abs=0.1)


@simulated
async def test_a_release_that_is_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    provider = FakeProvider(faults=[Fault("delete_snapshot", nth=None, delay_s=1.0)])
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path, parallelism=2)
    await fill(boxes, provider, *(f"s{number}" for number in range(10)))
    await boxes.capture_once(boxes.sessions, checkpoint_id="c1")
    with anyio.move_on_after(2.5) as scope:
        await boxes.release(frozenset())
    assert scope.cancelled_caught
    left = await there(provider)
    assert len(left) == 6
    assert boxes.index.entries().keys() == left
    assert await boxes.release(frozenset()) == 6


@simulated
async def test_a_provider_that_cannot_snapshot_is_restart_only(tmp_path: Path) -> None:
    provider = FakeProvider(capabilities=())
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path)
    assert boxes.checkpoint_mode_in_effect() == "restart_only"
    await fill(boxes, provider, "a")
    with pytest.raises(CapabilityMissing):
        await boxes.capture_once(["a"], checkpoint_id="c1")
    with pytest.raises(CapabilityMissing):
        await audit(tmp_path, provider, kept=())


@simulated
async def test_the_audit_tells_what_is_missing_and_the_sweep_deletes_nothing_of_others(tmp_path: Path) -> None:
    provider = FakeProvider()
    boxes = SandboxCheckpointer(provider, state_dir=tmp_path)
    await fill(boxes, provider, "a", "b")
    first = await boxes.capture_once(["a", "b"], checkpoint_id="c1")
    boxes.admission_opened()
    second = await boxes.capture_once(["a"], checkpoint_id="c2")
    foreign = await provider.snapshot(boxes.get("a"))
    await provider.delete_snapshot(first["b"].snapshot_id)
    found = await audit(tmp_path, provider, kept=["c1"])
    assert found.needed == (first["a"].snapshot_id,)
    assert found.missing == (first["b"].snapshot_id,)
    assert found.unneeded == (second["a"].snapshot_id,)
    assert await sweep(tmp_path, provider, kept=["c1"]) == found
    assert await there(provider) == {first["a"].snapshot_id, foreign.id}
    assert (await audit(tmp_path, provider, kept=["c1"])).unneeded == ()


def test_states_say_what_a_fork_needs() -> None:
    state = SandboxState(
        provider_name="local",
        descriptor={"box_id": "b"},
        snapshot_id="snap-1",
        spec=SandboxSpec(image="python:3", workdir="/w", env={"A": "1"}),
        snapshot_at=1.5,
    )
    assert SandboxState.model_validate_json(state.model_dump_json()) == state


# -- the index ---------------------------------------------------------------------------------------------------------


def test_the_index_is_shared_and_survives_half_a_line(tmp_path: Path) -> None:
    one, other = SnapshotIndex(tmp_path), SnapshotIndex(tmp_path)
    one.intend("c1", "local", {"a": "snap-a", "b": "snap-b"})
    other.refer("c2", "local", {"b": "snap-b"})
    one.taken(["snap-a"])
    entries = other.entries()
    assert entries["snap-a"].name == "c1.a"
    assert (entries["snap-a"].is_taken, entries["snap-b"].checkpoints) == (True, {"c1", "c2"})
    with (tmp_path / "snapshots.jsonl").open("ab") as file:
        file.write(b'{"event": "intended", "checkpoint": "c3", "na')
    assert SnapshotIndex(tmp_path).entries().keys() == {"snap-a", "snap-b"}
    one.forget(["snap-a"])
    assert other.entries().keys() == {"snap-b"}
    assert other.unneeded(frozenset({"c2"}), "local") == []
    assert other.unneeded(frozenset({"c1"}), "local") == []
    assert other.unneeded(frozenset(), "local") == ["snap-b"]
    assert other.unneeded(frozenset(), "docker") == []


def test_the_index_is_compacted_under_the_eyes_of_others(tmp_path: Path) -> None:
    one, other = SnapshotIndex(tmp_path), SnapshotIndex(tmp_path)
    for number in range(700):
        one.intend(f"c{number}", "local", {"a": f"snap-{number}"})
        one.taken([f"snap-{number}"])
        one.forget([f"snap-{number}"] if number % 100 else ["unknown"])
    lines = (tmp_path / "snapshots.jsonl").read_text().splitlines()
    assert len(lines) < 200
    assert all(json.loads(line) for line in lines)
    assert len(other.entries()) == 7
    other.refer("late", "local", {"a": "snap-0"})
    assert one.entries()["snap-0"].checkpoints == {"c0", "late"}


def clean_up_after_the_killed(provider: LocalProvider, folder: Path) -> None:
    """Remove the sandboxes of dead processes, as ``swe-sdk reap`` does; snapshots are not its business."""
    anyio.run(lambda: reap(LeaseBook(folder / "leases"), [provider], grace_s=0.0))


# -- a process that is killed ------------------------------------------------------------------------------------------

KILLED = """
import sys, anyio
from pathlib import Path
from swe_sdk.checkpoint import SandboxCheckpointer
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider

async def main(state, state_dir):
    provider = LocalProvider(state)
    boxes = SandboxCheckpointer(provider, state_dir=Path(state_dir))
    for number in range(4):
        boxes.add(f"s{number}", await provider.create(SandboxSpec(workdir="/tmp")))
    for number in range(1000):
        await boxes.capture_once(boxes.sessions, checkpoint_id=f"c{number}")
        print(number, flush=True)
        boxes.admission_opened()

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.parametrize("delay_s", [0.0, 0.013, 0.041])
def test_a_kill_in_the_middle_of_an_export_loses_no_snapshot(
    local_provider: LocalProvider, state: Path, tmp_path: Path, delay_s: float
) -> None:
    before = anyio.run(there, local_provider)
    arguments = [sys.executable, "-c", KILLED, str(state), str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["0\n", "1\n"]
        anyio.run(anyio.sleep, delay_s)
        os.kill(process.pid, signal.SIGKILL)
        process.stdout.read()

    async def look() -> None:
        found = await there(local_provider) - before
        seen = await audit(tmp_path, local_provider, kept=["c1"])
        assert set(seen.needed) | set(seen.unneeded) == found, "a snapshot is in no index"
        assert len(seen.needed) == 4
        await sweep(tmp_path, local_provider, kept=["c1"])
        assert await there(local_provider) - before == set(seen.needed)
        await sweep(tmp_path, local_provider, kept=[])
        assert await there(local_provider) == before

    anyio.run(look)
    clean_up_after_the_killed(local_provider, tmp_path)
