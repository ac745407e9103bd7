"""An amount in a currency."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_DIGITS = {"JPY": 0, "KRW": 0, "BHD": 3, "KWD": 3}


class CurrencyMismatch(ValueError):
    """Two amounts of different currencies met."""


@dataclass(frozen=True)
class Money:
    """``minor`` counts the smallest units of the currency: cents for EUR, yen for JPY."""

    minor: int
    currency: str

    def __post_init__(self) -> None:
        if not isinstance(self.minor, int):
            raise TypeError("minor units are whole numbers")

    def __add__(self, other: Money) -> Money:
        self._check(other)
        return Money(self.minor + other.minor, self.currency)

    def __sub__(self, other: Money) -> Money:
        return self + -other

    def __neg__(self) -> Money:
        return Money(-self.minor, self.currency)

    def __lt__(self, other: Money) -> bool:
        self._check(other)
        return self.minor < other.minor

    def __str__(self) -> str:
        digits = _DIGITS.get(self.currency, 2)
        sign = "-" if self.minor < 0 else ""
        whole, part = divmod(abs(self.minor), 10**digits)
        text = f"{whole}.{part:0{digits}d}" if digits else str(whole)
        return f"{sign}{text} {self.currency}"

    @staticmethod
    def total(amounts: Iterable[Money], currency: str | None = None) -> Money:
        """The sum of ``amounts``; of no amounts at all only if ``currency`` is given."""
        result = Money(0, currency) if currency is not None else None
        for amount in amounts:
            result = amount if result is None else result + amount
        if result is None:
            raise ValueError("the total of nothing needs a currency")
        return result

    def _check(self, other: Money) -> None:
        if self.currency != other.currency:
            raise CurrencyMismatch(f"{self.currency} and {other.currency}")
