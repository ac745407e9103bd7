"""The simulation of checkpoints at scale: the same from the same seed, and right where the answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.scale import Workload, checkpoint, done_again, freezing_s, residual_s, simulate, table


def test_a_seed_gives_the_same_figures_and_another_one_others() -> None:
    one, again, other = (simulate(Workload(), 200, 300.0, seed) for seed in (1, 1, 2))
    assert one == again
    assert one.volume_bytes != other.volume_bytes
    assert "| 200 | 5 min |" in table([one])


def test_nobody_is_waited_for_longer_than_the_deadline() -> None:
    patient = simulate(Workload(deadline_s=1000.0), 2000, 300.0, seed=1)
    hurried = simulate(Workload(deadline_s=5.0), 2000, 300.0, seed=1)
    assert 200 < patient.prepare_s <= 300, "the longest command is met somewhere"
    assert (patient.late, hurried.prepare_s) == (0.0, 5.0)
    assert 0.01 < hurried.late < 0.2
    assert hurried.stall_share < patient.stall_share


def test_what_is_left_of_equal_commands_is_spread_evenly() -> None:
    workload = Workload(model_s=(2.0, 0.0), command_s=(2.0, 0.0))
    left = residual_s(workload, 100_000, np.random.default_rng(1))
    assert np.mean(left == 0.0) == pytest.approx(0.5, abs=0.01)
    assert np.mean(left[left > 0]) == pytest.approx(1.0, abs=0.02)
    assert left.max() <= 2.0


def test_nodes_freeze_beside_each_other() -> None:
    workload = Workload(boxes_per_node=10, freezes_at_once=2, freeze_s=1.0, freeze_bytes_per_s=1e6)
    assert freezing_s(workload, np.zeros(10)) == pytest.approx(5.0)
    assert freezing_s(workload, np.zeros(1000)) == pytest.approx(5.0)
    assert freezing_s(workload, np.full(10, 1e6)) == pytest.approx(10.0)
    assert freezing_s(workload, np.zeros(3)) == pytest.approx(1.5)


def test_what_is_written_grows_with_sandboxes_and_time() -> None:
    rng = np.random.default_rng(1)
    few, many, late = (
        checkpoint(Workload(), n, s, rng)["volume_bytes"] for n, s in ((500, 300), (5000, 300), (500, 3000))
    )
    assert many / few == pytest.approx(10, rel=0.1)
    assert late / few == pytest.approx(10, rel=0.1)


def test_what_is_done_again_is_what_renewal_theory_says() -> None:
    workload = Workload(node_mtbf_h=6.0, driver_mtbf_h=math.inf, restore_s=0.0)
    assert done_again(workload, 60.0) == pytest.approx(60.0 / (2 * 6 * 3600), rel=0.01), "half a piece for each loss"
    rng, rate, length = np.random.default_rng(1), 1 / (6 * 3600.0), 8 * 3600.0
    played = np.mean([_played(rng, rate, length) for _ in range(20_000)]) / length - 1
    assert done_again(workload, length) == pytest.approx(played, rel=0.05)


def _played(rng: np.random.Generator, rate: float, length: float) -> float:
    """Seconds until a piece went through, with losses at random."""
    total = 0.0
    while (lost_after := rng.exponential(1 / rate)) < length:
        total += lost_after
    return total + length
