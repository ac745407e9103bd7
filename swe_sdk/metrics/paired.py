"""Two runs on the same tasks, as pure functions of pairs of pass rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from swe_sdk.metrics.intervals import Interval, bootstrap, wilson
from swe_sdk.model.record import Record

PairedMethod = Literal["newcombe", "paired bootstrap over tasks"]


class Pair(NamedTuple):
    """The pass rates of one task in both runs, from 0 to 1, over measured samples alone."""

    a: float
    b: float


class PairedDifference(Record):
    """By how much ``b`` passes more than ``a``, over the ``tasks`` that both have measured.

    ``value`` is None without any. ``low`` and ``high`` bound it with 95 % confidence, by ``method``.
    """

    value: float | None
    low: float
    high: float
    method: PairedMethod
    tasks: int

    def __str__(self) -> str:
        if self.value is None:
            return "difference of pass@1 not measured"
        return f"pass@1 {self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}], 95 %, {self.method}, {self.tasks} tasks"


def exact_mcnemar(gained: int, lost: int) -> float:
    """The two-sided p of McNemar's exact test: that of ``gained`` heads in ``gained + lost`` throws of a fair coin.

    Only pairs that differ say anything; without any, p is 1. Of pass rates over several samples it is the sign test.
    """
    flips, fewer = gained + lost, min(gained, lost)
    ways = tail = 1  # of exactly k, and of at most k heads, as exact numbers
    for k in range(fewer):
        ways = ways * (flips - k) // (k + 1)
        tail += ways
    return min(1.0, 2 * tail / (1 << flips))


def paired_difference(pairs: Sequence[Pair]) -> PairedDifference:
    """The mean difference of the pass rates and its interval.

    Newcombe's interval for paired proportions where every rate is 0 or 1, or where all tasks differ by the same (a
    bootstrap of equal values would be a point, and claim what nobody knows); else tasks are resampled, as pairs.
    """
    if not pairs:
        return PairedDifference(value=None, low=-1.0, high=1.0, method="newcombe", tasks=0)
    differences = [pair.b - pair.a for pair in pairs]
    by_newcombe = len(set(differences)) == 1 or all(rate in (0.0, 1.0) for pair in pairs for rate in pair)
    bounds = newcombe(pairs) if by_newcombe else bootstrap(differences)
    return PairedDifference(
        value=sum(differences) / len(differences),
        low=bounds.low,
        high=bounds.high,
        method="newcombe" if by_newcombe else "paired bootstrap over tasks",
        tasks=len(pairs),
    )


def newcombe(pairs: Sequence[Pair], level: float = 0.95) -> Interval:
    """An interval for the difference of two paired proportions, ``b - a``.

    Method 10 of Newcombe (1998, Statistics in Medicine 17, 2635-2650): Wilson's intervals of both, put together by the
    squares of their parts, with the correlation of the pairs and a correction for continuity. It stays within [-1, 1].
    """
    count = len(pairs)
    rate_a, rate_b = (sum(rates) / count for rates in zip(*pairs, strict=True))
    wilson_a, wilson_b = (wilson(rate * count, count, level) for rate in (rate_a, rate_b))
    phi = _correlation(pairs)
    down = _apart(rate_b - wilson_b.low, wilson_a.high - rate_a, phi)
    up = _apart(wilson_b.high - rate_b, rate_a - wilson_a.low, phi)
    return Interval(max(-1.0, rate_b - rate_a - down), min(1.0, rate_b - rate_a + up))


def _apart(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def _correlation(pairs: Sequence[Pair]) -> float:
    """Phi of the table of both, neither, and either alone; corrected where it is positive."""
    count = len(pairs)
    both = sum(a * b for a, b in pairs)
    neither = sum((1 - a) * (1 - b) for a, b in pairs)
    only_a, only_b = sum(a * (1 - b) for a, b in pairs), sum((1 - a) * b for a, b in pairs)
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    if margins <= 0:
        return 0.0
    apart = both * neither - only_a * only_b
    return (max(apart - count / 2, 0.0) if apart > 0 else apart) / math.sqrt(margins)
