from datetime import date

import pytest

from recur import Rule


def days(rule, number):
    return [day.isoformat() for day in rule.first(number)]


def test_daily_and_weekly():
    assert days(Rule("daily", date(2026, 2, 27)), 3) == ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert days(Rule("weekly", date(2026, 1, 5), interval=2), 3) == ["2026-01-05", "2026-01-19", "2026-02-02"]


def test_monthly():
    assert days(Rule("monthly", date(2026, 11, 15)), 3) == ["2026-11-15", "2026-12-15", "2027-01-15"]


def test_short_month_uses_its_last_day():
    assert days(Rule("monthly", date(2026, 1, 31)), 2) == ["2026-01-31", "2026-02-28"]


def test_yearly():
    assert days(Rule("yearly", date(2024, 2, 29)), 2) == ["2024-02-29", "2025-02-28"]


def test_until_is_inclusive():
    assert len(list(Rule("daily", date(2026, 1, 1), until=date(2026, 1, 10)))) == 10


def test_count():
    assert len(list(Rule("yearly", date(2026, 1, 1), count=4))) == 4


def test_between_includes_both_ends():
    rule = Rule("weekly", date(2026, 1, 1))
    assert rule.between(date(2026, 1, 8), date(2026, 1, 15)) == [date(2026, 1, 8), date(2026, 1, 15)]


def test_after():
    rule = Rule("daily", date(2026, 1, 1), count=2)
    assert rule.after(date(2026, 1, 1)) == date(2026, 1, 2)
    assert rule.after(date(2026, 1, 2)) is None


def test_calendar_ends():
    assert days(Rule("yearly", date(9998, 5, 1)), 5) == ["9998-05-01", "9999-05-01"]


@pytest.mark.parametrize("arguments", [{"frequency": "hourly"}, {"frequency": "daily", "interval": 0}])
def test_bad_rules(arguments):
    with pytest.raises(ValueError):
        Rule(start=date(2026, 1, 1), **arguments)
