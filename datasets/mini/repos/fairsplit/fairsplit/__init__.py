"""Money that does not get lost."""

from .money import CurrencyMismatch, Money
from .rounding import percentage, round_half_away
from .split import allocate, split_evenly

__all__ = ["CurrencyMismatch", "Money", "allocate", "percentage", "round_half_away", "split_evenly"]
