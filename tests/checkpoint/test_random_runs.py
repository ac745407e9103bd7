"""Whole runs with real participants on simulated time, killed and restored at random.

``SWE_SDK_CHECKPOINT_RUNS`` sets how many (40 by default).
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checkpoint.runs import Plan, Universe
from tests.checkpoint.virtual import simulate

RUNS = int(os.environ.get("SWE_SDK_CHECKPOINT_RUNS", "40"))
waits = st.integers(min_value=0, max_value=1000).map(lambda hundredths: hundredths / 100)
plans = st.builds(
    Plan,
    seed=st.integers(min_value=0, max_value=2**32),
    rollouts=st.integers(min_value=1, max_value=5),
    steps=st.integers(min_value=2, max_value=8),
    slots=st.integers(min_value=1, max_value=3),
    keep_last=st.integers(min_value=1, max_value=3),
    lives=st.lists(st.lists(waits, min_size=2, max_size=5).map(tuple), min_size=1, max_size=4).map(tuple),
    lost_coordinator=st.booleans(),
    failing_snapshots=st.lists(st.integers(min_value=1, max_value=12), max_size=3, unique=True).map(tuple),
)


def run(plan: Plan) -> Universe:
    """A run to its end, and what must hold then."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        universe = Universe(Path(directory), plan)
        simulate(universe.run)
    once = list(range(1, plan.steps + 1))
    assert universe.results == {
        f"r{number}": {"response": {"steps": plan.steps}, "log": once, "rows": once} for number in range(plan.rollouts)
    }
    return universe


def test_a_run_that_is_killed_twice_goes_on_from_its_checkpoints() -> None:
    universe = run(Plan(rollouts=4, steps=25, lives=((4.0, 5.0, 2.0), (6.0, 6.0, 1.0)), lost_coordinator=True))
    assert universe.saves >= 4
    assert universe.restored >= 6
    assert universe.failures == []


def test_a_save_whose_snapshot_fails_leaves_the_run_and_its_checkpoints_as_they_were() -> None:
    universe = run(Plan(rollouts=2, lives=((3.0, 2.0, 2.0, 1.0),), failing_snapshots=(3,)))
    assert len(universe.failures) == 1
    assert universe.saves >= 2


def random_plan(seed: int) -> Plan:
    """Plans without the small values that hypothesis likes: most rollouts are in the middle of their work at a cut."""
    random = Random(seed)
    lives = tuple(
        tuple(random.uniform(0, 12) for _ in range(random.randint(2, 5))) for _ in range(random.randint(1, 4))
    )
    return Plan(
        seed=seed,
        rollouts=random.randint(1, 5),
        steps=random.randint(3, 8),
        slots=random.randint(1, 3),
        keep_last=random.randint(1, 3),
        lives=lives,
        failing_snapshots=(random.randint(1, 20),) if seed % 3 == 0 else (),
    )


def test_most_random_runs_are_cut_in_the_middle_and_come_to_the_same() -> None:
    ends = [run(random_plan(seed)) for seed in range(RUNS)]
    assert sum(universe.saves for universe in ends) >= 3 * RUNS
    assert sum(universe.restored for universe in ends) >= 2 * RUNS
    assert sum(len(universe.failures) for universe in ends) >= RUNS // 6


@settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_no_step_is_lost_and_none_is_done_twice(plan: Plan) -> None:
    run(plan)
