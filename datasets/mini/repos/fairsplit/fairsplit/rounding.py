"""Rounding to minor units."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from .money import Money


def round_half_away(value: Decimal) -> int:
    """Round to the nearest whole number, halves away from zero, as invoices do."""
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def percentage(amount: Money, percent: str | int | Decimal) -> Money:
    """``percent`` per cent of ``amount``. Floats are refused: write "7.5", not 7.5."""
    if isinstance(percent, float):
        raise TypeError("pass the percentage as a string, an int or a Decimal")
    return Money(round_half_away(Decimal(amount.minor) * Decimal(percent) / 100), amount.currency)
