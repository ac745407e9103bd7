"""Confidence intervals, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

RESAMPLES = 2000
_SEED = 0


class Interval(NamedTuple):
    """The bounds of an interval, both within what the quantity can be."""

    low: float
    high: float


def wilson(successes: float, trials: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion; (0, 1) where nothing was tried. A trial may succeed in part.

    Unlike ``p ± z·sqrt(p(1-p)/n)`` it stays within [0, 1] and is no point for 0 or ``trials`` successes.
    """
    if trials == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    part, spread = successes / trials, z * z / trials
    centre = (part + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(part * (1 - part) / trials + spread / trials / 4)
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Interval(low, high)


def bootstrap(values: Sequence[float], level: float = 0.95, resamples: int = RESAMPLES) -> Interval:
    """The percentile bootstrap of a mean: ``values`` (one a task) are drawn with replacement, ``resamples`` times.

    The draws come from a fixed seed, so the same values always have the same interval. Tasks are drawn, never samples:
    the samples of one task are not independent of each other. Equal values are drawn together (how often each is drawn
    is multinomial), so that it takes milliseconds for any number of tasks. (0, 1) without values.
    """
    if not values:
        return Interval(0.0, 1.0)
    import numpy as np

    different, counts = np.unique(np.asarray(values, dtype=float), return_counts=True)
    total = int(counts.sum())
    drawn = np.random.default_rng(_SEED).multinomial(total, counts / total, size=resamples)
    means = drawn @ different / total
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(float(low), float(high))
