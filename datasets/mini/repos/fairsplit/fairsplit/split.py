"""Divide an amount so that nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence

from .money import Money


def allocate(amount: Money, ratios: Sequence[int]) -> list[Money]:
    """Divide ``amount`` in proportion to ``ratios``, which need not add up to anything in particular."""
    if not ratios or any(ratio < 0 for ratio in ratios) or not any(ratios):
        raise ValueError("ratios must be non-negative and not all zero")
    whole = sum(ratios)
    shares = [_divide(amount.minor * ratio, whole) for ratio in ratios]
    left = amount.minor - sum(shares)
    takers = [index for index, ratio in enumerate(ratios) if ratio]
    for index in takers[:left]:
        shares[index] += 1
    return [Money(share, amount.currency) for share in shares]


def split_evenly(amount: Money, parts: int) -> list[Money]:
    """Divide ``amount`` into ``parts`` shares that differ by one minor unit at most."""
    if parts < 1:
        raise ValueError("parts must be at least 1")
    return allocate(amount, [1] * parts)


def _divide(minor: int, whole: int) -> int:
    """Whole division towards zero: a share never exceeds what the ratio entitles to, whatever the sign."""
    quotient = abs(minor) // whole
    return quotient if minor >= 0 else -quotient
