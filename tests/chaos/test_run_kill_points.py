"""Kills of runs: SWE_SDK_RUN_KILL_POINTS of them (``make chaos``: 100), from the seed SWE_SDK_SEED."""

import os
from pathlib import Path

import pytest

from tests.chaos.run_kill_points import Report, duration_s, kill_and_resume, random_kills

_COUNT = int(os.environ.get("SWE_SDK_RUN_KILL_POINTS") or 3)
_SEED = int(os.environ.get("SWE_SDK_SEED") or 1)


@pytest.mark.network
@pytest.mark.timeout(120 + 40 * _COUNT)
def test_no_finished_rollout_is_lost_or_done_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("SWE_SDK_INDEX", str(tmp_path / "index"))
    longest_s = duration_s(state, tmp_path)
    reports = [
        kill_and_resume(state, tmp_path, number, after_s)
        for number, after_s in enumerate(random_kills(_SEED, _COUNT, longest_s))
    ]
    print_summary(reports, longest_s)
    assert any(report.hits for report in reports)
    assert [(report.after_s, report.problems) for report in reports if report.problems] == []


def print_summary(reports: list[Report], longest_s: float) -> None:
    """What came of all of them."""
    kept, restarted = sum(report.kept for report in reports), sum(report.restarted for report in reports)
    hits = sum(report.hits for report in reports)
    print(f"{len(reports)} runs of {longest_s:.1f} s, {hits} kills hit, seed {_SEED}")
    print(f"  {kept} rollouts were finished and kept, {restarted} were under way and started over")
