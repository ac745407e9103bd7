"""The rule and its dates."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from .months import add_months

FREQUENCIES = ("daily", "weekly", "monthly", "yearly")


@dataclass(frozen=True)
class Rule:
    """Every ``interval`` days, weeks, months or years from ``start`` on."""

    frequency: str
    start: date
    interval: int = 1
    until: date | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if self.frequency not in FREQUENCIES:
            raise ValueError(f"frequency must be one of {', '.join(FREQUENCIES)}")
        if self.interval < 1:
            raise ValueError("interval must be at least 1")

    def __iter__(self) -> Iterator[date]:
        dates = self._dates()
        if self.count is not None:
            dates = itertools.islice(dates, self.count)
        if self.until is not None:
            until = self.until
            dates = itertools.takewhile(lambda day: day <= until, dates)
        return dates

    def first(self, number: int) -> list[date]:
        """The first ``number`` dates, or as many as there are."""
        return list(itertools.islice(self, number))

    def between(self, begin: date, end: date) -> list[date]:
        """The dates from ``begin`` to ``end``, both included."""
        return [day for day in itertools.takewhile(lambda day: day <= end, self) if day >= begin]

    def after(self, day: date) -> date | None:
        """The first date later than ``day``, if there is one."""
        return next((item for item in self if item > day), None)

    def _dates(self) -> Iterator[date]:
        day = self.start
        while True:
            yield day
            try:
                day = self._next(day)
            except (OverflowError, ValueError):  # the calendar ends with the year 9999
                return

    def _next(self, day: date) -> date:
        if self.frequency == "daily":
            return day + timedelta(days=self.interval)
        if self.frequency == "weekly":
            return day + timedelta(weeks=self.interval)
        if self.frequency == "monthly":
            return add_months(day, self.interval)
        return add_months(day, 12 * self.interval)
