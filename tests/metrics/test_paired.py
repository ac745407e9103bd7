"""McNemar's exact test and intervals of paired differences."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_sdk.metrics import exact_mcnemar, paired_difference
from swe_sdk.metrics.paired import Pair, newcombe


def cells(both: int, only_a: int, only_b: int, neither: int) -> list[Pair]:
    return [Pair(1.0, 1.0)] * both + [Pair(1.0, 0.0)] * only_a + [Pair(0.0, 1.0)] * only_b + [Pair(0.0, 0.0)] * neither


@pytest.mark.parametrize(
    ("gained", "lost", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 2 / 32), (6, 1, 16 / 128), (10, 2, 2 * 79 / 4096), (3, 3, 1.0), (4, 3, 1.0)],
)
def test_p_is_that_of_a_fair_coin(gained: int, lost: int, p: float) -> None:
    assert exact_mcnemar(gained, lost) == pytest.approx(p, rel=1e-12)
    assert exact_mcnemar(lost, gained) == exact_mcnemar(gained, lost)


@given(st.integers(0, 300), st.integers(0, 300))
def test_p_is_the_sum_over_all_throws_that_are_no_likelier(gained: int, lost: int) -> None:
    n = gained + lost
    ways = [math.comb(n, k) for k in range(n + 1)]
    as_extreme = sum(way for way in ways if way <= ways[gained])
    assert exact_mcnemar(gained, lost) == pytest.approx(as_extreme / (1 << n), rel=1e-9)


def test_p_of_many_flips_is_there_at_once_and_neither_0_nor_overflowing() -> None:
    assert 0 < exact_mcnemar(20_000, 19_000) < 1e-6


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [((36, 12, 2, 0), 0.0569, 0.3404), ((20, 12, 2, 16), 0.0562, 0.3292), ((36, 14, 0, 0), 0.1528, 0.4167)],
)
def test_newcombe_as_published(table: tuple[int, int, int, int], low: float, high: float) -> None:
    """Newcombe (1998), Statistics in Medicine 17, 2635, table II, method 10; his difference is that of a less b."""
    found = newcombe(cells(*table))
    assert (-found.high, -found.low) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


@given(st.tuples(*[st.integers(0, 40)] * 4).filter(any))
def test_newcombe_holds_the_difference_and_turns_with_the_pairs(table: tuple[int, int, int, int]) -> None:
    pairs = cells(*table)
    found, turned = newcombe(pairs), newcombe([Pair(b, a) for a, b in pairs])
    difference = (table[2] - table[1]) / sum(table)
    assert -1 <= found.low <= difference + 1e-12
    assert difference - 1e-12 <= found.high <= 1
    assert (found.low, found.high) == (pytest.approx(-turned.high), pytest.approx(-turned.low))


@pytest.mark.parametrize(("count", "both", "only_a", "only_b"), [(20, 0.3, 0.1, 0.2), (60, 0.4, 0.05, 0.15)])
def test_the_interval_holds_the_truth_as_often_as_it_says(
    count: int, both: float, only_a: float, only_b: float
) -> None:
    chance, held, runs = random.Random(5), 0, 1500
    for _ in range(runs):
        drawn = chance.choices(range(4), [both, only_a, only_b, 1 - both - only_a - only_b], k=count)
        found = paired_difference(cells(*(drawn.count(cell) for cell in range(4))))
        assert found.method == "newcombe"
        held += found.low <= only_b - only_a <= found.high
    assert 0.93 <= held / runs <= 0.99


def test_rates_of_several_samples_are_resampled_as_pairs() -> None:
    found = paired_difference([Pair(0.25, 0.5), Pair(0.5, 0.5), Pair(0.0, 1.0), Pair(0.75, 0.5)] * 10)
    assert found.method == "paired bootstrap over tasks"
    assert found.value == pytest.approx(0.25)
    assert 0 < found.low < 0.25 < found.high < 0.5


def test_equal_differences_are_no_point() -> None:
    """A bootstrap of them would be one, and claim what nobody knows."""
    found = paired_difference([Pair(0.5, 0.75)] * 4)
    assert found.value == pytest.approx(0.25)
    assert found.low < 0 < 0.25 < found.high


def test_nothing_measured_says_so() -> None:
    found = paired_difference([])
    assert (found.value, found.low, found.high, found.tasks) == (None, -1.0, 1.0, 0)
    assert "not measured" in str(found)
