"""Workers that come and go at random, also while a checkpoint is open: no step is lost, and none is done twice.

``SWE_SDK_WORKER_RUNS`` sets how many runs (4 by default).
"""

from __future__ import annotations

import os
from pathlib import Path

import anyio

from tests.server.control.worker_chaos import run

RUNS = int(os.environ.get("SWE_SDK_WORKER_RUNS", "4"))


def test_no_step_is_lost_and_none_is_done_twice_by_workers_that_come_and_go(tmp_path: Path) -> None:
    ends = []
    for seed in range(RUNS):
        place = tmp_path / str(seed)
        place.mkdir()
        ends.append(anyio.run(run, seed, place))
    assert all(end.lost for end in ends)
    assert sum(end.saves for end in ends) >= RUNS
    assert sum(end.restored for end in ends) >= RUNS
    assert sum(end.joined for end in ends) >= RUNS
    if RUNS >= 50:
        assert sum(end.failed_saves for end in ends), "no loss has ever hit a save"
