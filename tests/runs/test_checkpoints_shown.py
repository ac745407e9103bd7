"""What people see of checkpoints: ``run.checkpoints``, and the two commands."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from swe_sdk import aio, paths
from swe_sdk.checkpoint.snapshots.index import SnapshotIndex
from swe_sdk.cli import main
from swe_sdk.errors import InputError
from swe_sdk.model.task import Task
from swe_sdk.runs.checkpoints import snapshots
from swe_sdk.runs.run import Run
from swe_sdk.sandbox import registry
from swe_sdk.sandbox.contract import SandboxSpec
from swe_sdk.sandbox.providers.local.provider import LocalProvider
from tests.runs.checkpointed import events, steps, stopped_when

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def stopped(local_provider: LocalProvider, state: Path, task: Task, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run by the provider's name that was stopped after its first checkpoint."""
    for module in (registry, snapshots):
        monkeypatch.setattr(module, "named_provider", lambda _name: local_provider)
    path = paths.runs_dir() / "stopped"

    def has_snapshots() -> bool:
        told = events(path) if path.is_dir() else []
        return any(one["kind"] == "checkpoint_saved" and one["snapshots"] for one in told)

    start = partial(aio.run, task, steps(), provider="local", path=path, checkpoint_every=0.4, progress=False)
    anyio.run(stopped_when, has_snapshots, start)
    return path


def test_a_checkpoint_says_what_it_holds(stopped: Path, task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    with Run(stopped) as run:
        found = run.checkpoints
        (newest, *_) = reversed(found.kept)
        assert (newest.status, newest.snapshots, newest.records["rollouts"]) == ("kept", 1, 1)
        assert set(newest.phases_s) == {"prepare", "commit", "resume"}
        assert newest.bytes > 0
        assert found[newest.id].path == stopped / "checkpoints" / newest.id
        (held,) = newest.inspect()
        (row,) = newest.rollouts
        assert (row.rollout_id, row.held, row.boundary) == (f"{task.instance_id}.0", "saved", held.next)
        assert row.spent_s == pytest.approx(held.budget.spent_s, abs=0.001)
        assert [one.snapshot_id for one in newest.snapshot_rows()] == [held.snapshot]
        frame = found.to_frame()
        assert list(frame.index) == [each.id for each in found]
        assert frame.loc[newest.id, "snapshots"] == 1
        assert newest.id in found._repr_html_()
        assert "1 kept" in repr(found) or "2 kept" in repr(found)
        with pytest.raises(InputError, match="there is no checkpoint nothing"):
            found["nothing"]
    assert main(["checkpoints", str(stopped)]) == 0
    assert newest.id in capsys.readouterr().out
    assert main(["checkpoints", str(stopped), newest.id]) == 0
    assert held.next in capsys.readouterr().out
    assert main(["checkpoints", str(stopped), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told[-1]["held"][0]["rollout_id"] == f"{task.instance_id}.0"
    assert main(["checkpoints", str(stopped), "nothing"]) == 2
    anyio.run(lambda: aio.resume(stopped, progress=False)).close()


def test_snapshots_are_audited_and_reaped(
    stopped: Path, local_provider: LocalProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    with Run(stopped) as run:
        kept = run.checkpoints.kept
        needed = {one.snapshot for each in kept for one in each.inspect()}

    async def lost_by_a_crash() -> str:
        box = await local_provider.create(SandboxSpec(workdir="/tmp"))
        index = SnapshotIndex(stopped / "snapshots")
        index.intend("checkpoint-000099-000000", "local", {"r.0": "snap-000000000000"})
        snapshot = await local_provider.snapshot(box, snapshot_id="snap-000000000000")
        await box.close()
        return snapshot.id

    lost = anyio.run(lost_by_a_crash)
    assert main(["snapshots", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert set(told["found"]["needed"]) == needed
    assert (told["found"]["unneeded"], told["reaped"]) == ([lost], False)
    assert main(["snapshots"]) == 0
    assert "1 snapshots are needed by no checkpoint; --reap deletes them" in capsys.readouterr().out
    assert main(["snapshots", str(stopped), "--reap"]) == 0
    capsys.readouterr()
    assert main(["snapshots", str(stopped), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (set(told["found"]["needed"]), told["found"]["unneeded"]) == (needed, [])
    assert lost not in {one.id for one in anyio.run(local_provider.snapshots)}
    assert main(["snapshots", "/nowhere"]) == 2
    anyio.run(lambda: aio.resume(stopped, progress=False)).close()
    assert not needed & {one.id for one in anyio.run(local_provider.snapshots)}
