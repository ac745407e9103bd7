"""Kills of runs that save themselves: SWE_SDK_CHECKPOINT_KILL_POINTS (``make chaos``: 50), from SWE_SDK_SEED."""

import os
from pathlib import Path

import pytest

from tests.chaos.checkpoint_kill_points import Report, kill_and_resume, random_kills, undisturbed

_COUNT = int(os.environ.get("SWE_SDK_CHECKPOINT_KILL_POINTS") or 2)
_SEED = int(os.environ.get("SWE_SDK_SEED") or 1)


@pytest.mark.network
@pytest.mark.timeout(120 + 60 * _COUNT)
def test_each_step_stands_once_whatever_is_killed_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("SWE_SDK_INDEX", str(tmp_path / "index"))
    yard = undisturbed(state, tmp_path)
    reports = [
        kill_and_resume(yard, number, after_s)
        for number, after_s in enumerate(random_kills(_SEED, _COUNT, yard.seconds))
    ]
    print_summary(reports, yard.seconds)
    assert any(report.hits for report in reports)
    assert any(report.restored for report in reports), "nothing went on from a checkpoint"
    assert [(report.after_s, report.problems) for report in reports if report.problems] == []


def print_summary(reports: list[Report], seconds: float) -> None:
    """What came of all of them."""
    hits, saved = sum(report.hits for report in reports), sum(report.saved for report in reports)
    restored, over = sum(report.restored for report in reports), sum(report.over for report in reports)
    print(f"{len(reports)} runs of {seconds:.1f} s, {hits} kills hit, {saved} checkpoints, seed {_SEED}")
    print(f"  {restored} attempts went on from a checkpoint, {over} started over")
