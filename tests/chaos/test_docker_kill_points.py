"""Kill points in containers: SWE_SDK_DOCKER_KILL_POINTS of them (``make chaos``: 200), from the seed SWE_SDK_SEED."""

from __future__ import annotations

import os
import time

import pytest

from tests.chaos.docker_kill_points import TASKS, VICTIMS, Place, grade_arguments, images, kill_once
from tests.chaos.kill_points import random_kills, statuses
from tests.chaos.test_kill_points import print_summary

_COUNT = int(os.environ.get("SWE_SDK_DOCKER_KILL_POINTS") or 4)
_SEED = int(os.environ.get("SWE_SDK_SEED") or 1)


@pytest.mark.network
@pytest.mark.timeout(240 + 60 * _COUNT)
def test_nothing_is_left_and_no_outcome_is_false(place: Place) -> None:
    for _warm_up_then_measure in range(2):
        started = time.monotonic()
        place.run(*grade_arguments(place.folder / "warm.jsonl"))
    longest_s = time.monotonic() - started
    assert statuses(place.folder / "warm.jsonl") == ["resolved"] * len(TASKS), "without any kill"
    before = images(place.engine)
    reports = [
        kill_once(place, victim, after_s, before) for victim, after_s in random_kills(_SEED, _COUNT, longest_s, VICTIMS)
    ]
    print_summary(reports, longest_s)
    assert any(report.hit for report in reports)
    assert [(report.victim, report.after_s, report.problems) for report in reports if report.problems] == []
