"""Arithmetic on months."""

from __future__ import annotations

import calendar
from datetime import date


def last_day(year: int, month: int) -> int:
    return calendar.monthrange(year, month)[1]


def add_months(day: date, months: int) -> date:
    """The same day ``months`` later, or the last day of that month if it is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, last_day(year, month + 1)))
