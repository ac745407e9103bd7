"""Kill points: SWE_SDK_KILL_POINTS of them (``make chaos``: 300), from the seed SWE_SDK_SEED."""

import os
from pathlib import Path

import pytest

from tests.chaos.kill_points import Report, duration_s, kill_once, random_kills

_COUNT = int(os.environ.get("SWE_SDK_KILL_POINTS") or 8)
_SEED = int(os.environ.get("SWE_SDK_SEED") or 1)


@pytest.mark.network
@pytest.mark.timeout(60 + 30 * _COUNT)
def test_nothing_is_left_and_no_outcome_is_false(tmp_path: Path) -> None:
    state = tmp_path / "state"
    longest_s = duration_s(state, tmp_path)
    reports = [
        kill_once(state, tmp_path, victim, after_s) for victim, after_s in random_kills(_SEED, _COUNT, longest_s)
    ]
    print_summary(reports, longest_s)
    assert any(report.hit for report in reports)
    assert [(report.victim, report.after_s, report.problems) for report in reports if report.problems] == []


def print_summary(reports: list[Report], longest_s: float) -> None:
    """What came of all of them, by victim."""
    print(f"{len(reports)} kill points over batches of {longest_s:.1f} s, seed {_SEED}")
    for victim in sorted({report.victim for report in reports}):
        mine = [report for report in reports if report.victim == victim]
        statuses = [status for report in mine for status in report.statuses]
        counts = {status: statuses.count(status) for status in sorted(set(statuses))}
        print(f"  {victim}: {sum(report.hit for report in mine)} of {len(mine)} hit, outcomes {counts}")
