"""Checkpoints of a run that workers carry out: who has the snapshots goes on, and others say why they cannot."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import swe_sdk as swe
from swe_sdk.errors import CapabilityMissing, InputError
from swe_sdk.executors.local import LocalExecutor, LocalPool
from swe_sdk.executors.place import open_place
from swe_sdk.runs.checkpoints.snapshots import run_snapshots
from swe_sdk.sandbox.node import node_id
from swe_sdk.sandbox.registry import named_provider
from tests.executors.two_nodes import (
    all_is_right,
    attempts,
    goes_on,
    gone_on,
    held_by,
    left_of_run,
    stopped_with_checkpoints,
)
from tests.leaks import memory_folder
from tests.runs.checkpointed import events

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]
HERE = LocalExecutor(slots=3)


@pytest.fixture
async def other_state() -> AsyncIterator[Path]:
    """The cache folder of another node of this machine."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-node-", dir=memory_folder()))
    yield folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWE_SDK_STATE", str(folder))
        await named_provider("local").aclose()
    shutil.rmtree(folder)


def here() -> Path:
    return Path(os.environ["SWE_SDK_STATE"])


async def test_workers_go_on_from_their_node_s_checkpoints(tasks: swe.TaskSet, tmp_path: Path) -> None:
    path = tmp_path / "run"
    await stopped_with_checkpoints(path, tasks, HERE)
    held = held_by(path)
    assert {one["node"] for one in held.values()} == {node_id()}, "records say who has the snapshots"
    with await gone_on(path, HERE) as run:
        all_is_right(run, path)
        assert held
        for one in held.values():
            goes_on(run, path, one)
        assert {row.node for row in run.snapshots} == {node_id()}
        assert run.snapshots.troubled.summary == "no snapshots"
        assert "node" in run.snapshots.to_frame()
    assert left_of_run(here()) == []
    assert await run_snapshots(path) == [], "its indexes are empty"


async def test_another_node_starts_over_and_says_why(
    tasks: swe.TaskSet, tmp_path: Path, other_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    await stopped_with_checkpoints(path, tasks, HERE)
    held, first, state = held_by(path), node_id(), here()
    monkeypatch.setenv("SWE_SDK_STATE", str(other_state))
    assert node_id() != first, "another cache folder is another node"
    with await gone_on(path, HERE) as run:
        all_is_right(run, path)
        for name, one in held.items():
            began = attempts(path)[name]
            assert began["restored_from"] is None
            assert (
                f"{one['checkpoint']} has its sandbox on the node {first}, and this is {node_id()}"
                in (began["restart_reason"])
            )
            assert f"the node {first} is another one" in began["restart_reason"], "and why it was not given to that"
            assert run.rollouts[name].attempts[-1].restart_reason == began["restart_reason"]
            assert "started over" in str(run.rollouts[name]), "seen by who prints it"
        assert left_of_run(other_state) == []
        assert {row.snapshot_id for row in run.snapshots.troubled} == set(left_of_run(state)), "the other node has them"
    assert "others lie on the node" in (await run_snapshots(path, reap=True))[-1].skipped
    monkeypatch.setenv("SWE_SDK_STATE", str(state))
    await run_snapshots(path, reap=True)
    assert left_of_run(state) == [], "reaped where they lie"
    with await swe.aio.open_run(path) as run:
        assert run.snapshots.troubled.summary == "no snapshots"


async def test_a_copy_on_shared_storage_is_gone_on_from(
    tasks: swe.TaskSet, tmp_path: Path, other_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, share = tmp_path / "run", tmp_path / "share"
    await stopped_with_checkpoints(path, tasks, HERE, saves=3, snapshot_share=str(share))
    held, first, state = held_by(path), node_id(), here()
    copied = {one["snapshot_id"] for one in events(path) if one["kind"] == "snapshot_copied"}
    monkeypatch.setenv("SWE_SDK_STATE", str(other_state))
    with await gone_on(path, HERE) as run:
        all_is_right(run, path)
        gone_on_from = [one for one in held.values() if one["snapshot_id"] in copied]
        assert gone_on_from
        for one in gone_on_from:
            goes_on(run, path, one)
        assert {row.node for row in run.snapshots} == {first, node_id()}
        assert any(row.copied_to for row in run.snapshots)
    assert left_of_run(other_state) == [], "what was made of copies is gone with the rollouts"
    assert list(share.iterdir()) == [], "no copy is left of a finished run"
    monkeypatch.setenv("SWE_SDK_STATE", str(state))
    await run_snapshots(path, reap=True)
    assert left_of_run(state) == []


async def test_a_process_of_its_own_goes_on_with_what_workers_have_saved(tasks: swe.TaskSet, tmp_path: Path) -> None:
    path = tmp_path / "run"
    await stopped_with_checkpoints(path, tasks, HERE)
    held = held_by(path)
    with await swe.aio.resume(path, executor="local", progress=False) as run:
        all_is_right(run, path)
        assert held
        for one in held.values():
            goes_on(run, path, one)
    assert left_of_run(here()) == []


async def test_what_cannot_be_is_refused_before_anything_is_made(tasks: swe.TaskSet, tmp_path: Path) -> None:
    given = {"path": tmp_path / "run", "progress": False, "checkpoint_every": "5m"}
    with pytest.raises(CapabilityMissing, match="docker cannot be copied to shared storage"):
        await swe.aio.run(tasks, "gold", provider="docker", executor=HERE, snapshot_share="/share", **given)
    with pytest.raises(InputError, match="run directory that all nodes see"):
        await swe.aio.run(tasks, "gold", provider="local", executor=NotShared(), **given)
    assert not (tmp_path / "run").exists()


class NotShared(LocalExecutor):
    """Nodes that do not see our files, as with ``RayExecutor(shared=False)``."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[LocalPool]:
        async with open_place("away", shared=False) as place:
            yield FarPool(place, 1)


class FarPool(LocalPool):
    @property
    def shares_files(self) -> bool:
        return False
