"""A run is killed in the middle of a save: all views of it agree at once, and its journal is right after a clean-up."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import swe_sdk as swe
from swe_sdk.cli import main
from swe_sdk.runs.run import Run
from swe_sdk.sandbox.registry import named_provider
from swe_sdk.store.index import open_index
from tests.leaks import memory_folder, traces_of
from tests.runs.checkpointed import done_in, every_step
from tests.runs.cut_run import MOMENTS, STEPS
from tests.shared import lacking

pytestmark = pytest.mark.timeout(120)
_STATES = {"kept": "kept", "released": "released", "incomplete": "saving"}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """State of its own: who is killed has a provider by its name, and so has whoever goes on."""
    folder = Path(tempfile.mkdtemp(prefix="swe_sdk-cut-", dir=memory_folder()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWE_SDK_STATE", str(folder))
        health = anyio.run(named_provider("local").probe)
        if not health.works:
            lacking(f"local sandboxes do not work here: {health.reason} ({health.remedy})")
        yield folder
        anyio.run(named_provider("local").aclose)
        deadline = time.monotonic() + 10
        while (left := traces_of(folder).keys() - {"owners"}) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)
        assert not left


@pytest.fixture
def cut(home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A run that was killed at the moment that the test names."""
    path = tmp_path / "runs" / "cut"
    command = [sys.executable, "-m", "tests.runs.cut_run", str(tmp_path / "repo"), str(path), request.param]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    return path


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def require_one_truth(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """All that show checkpoints and snapshots say the same; returns the state of each snapshot."""
    with Run(path) as run, open_index(path.parent) as index:
        shown = {each.id: _STATES[each.status] for each in run.checkpoints}
        rows = {row.checkpoint_id: row for row in index.checkpoints()}
        assert {name: row.state for name, row in rows.items()} == shown
        by_command = {one["checkpoint_id"]: _STATES[one["status"]] for one in told(capsys, "checkpoints", str(path))}
        assert by_command == shown
        for each in run.checkpoints:
            if each.status != "incomplete":
                row = rows[each.id]
                assert (row.records, row.size_bytes) == (sum(each.records.values()), each.bytes)
                assert (row.snapshots, row.restarts) == (each.snapshots, len(each.restarts))
                assert row.saved_at == pytest.approx(each.created_at.timestamp(), abs=30)
        snapshots = {row.snapshot_id: row for row in run.snapshots}
        assert index.snapshots() == list(run.snapshots)
        kept = {each.id for each in run.checkpoints.kept}
        needed = {one.snapshot for each in run.checkpoints.kept for one in each.inspect() if one.snapshot}
        (totals,) = index.snapshot_totals()
    assert {name for name, row in snapshots.items() if row.kept_by} == needed
    assert all(set(row.kept_by) == set(row.referenced_by) & kept for row in snapshots.values())
    states = {name: row.state for name, row in snapshots.items()}
    assert totals.leaks == list(states.values()).count("leaked")
    (audited,) = told(capsys, "snapshots", str(path)) or [{"found": {"needed": [], "unneeded": [], "missing": []}}]
    assert (set(audited["found"]["needed"]), audited["found"]["missing"]) == (needed, [])
    assert {name for name, state in states.items() if state == "leaked"} >= set(audited["found"]["unneeded"])
    return states


@pytest.mark.parametrize("cut", MOMENTS, indirect=True)
def test_views_agree_at_once_and_a_resume_puts_the_journal_right(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_one_truth(cut, capsys)
    with swe.resume(cut, progress=False) as run:
        (rollout,) = run.rollouts.values()
        assert (rollout.status, done_in(run, rollout.id)) == ("resolved", every_step(STEPS))
        assert rollout.row.restored_from is not None
    states = require_one_truth(cut, capsys)
    assert set(states.values()) == {"released"}, "nobody goes on from a finished run"


@pytest.mark.parametrize("cut", [name for name in MOMENTS if "snapshots" in name][::2], indirect=True)
def test_the_command_that_reaps_puts_the_journal_right_too(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = require_one_truth(cut, capsys)
    assert "leaked" in before.values()
    (reaped,) = told(capsys, "snapshots", str(cut), "--reap")
    assert (reaped["reaped"], reaped["skipped"]) == (True, "")
    after = require_one_truth(cut, capsys)
    assert after == {name: "released" if state == "leaked" else state for name, state in before.items()}
    journals = len(list((cut / "events").iterdir()))
    told(capsys, "snapshots", str(cut), "--reap")
    assert len(list((cut / "events").iterdir())) == journals, "there was nothing to write down"
    swe.resume(cut, progress=False).close()
