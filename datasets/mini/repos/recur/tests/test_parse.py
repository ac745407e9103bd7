from datetime import date

import pytest

from recur import Rule, RuleError, parse_rule

START = date(2026, 1, 5)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("every day", Rule("daily", START)),
        ("Every 2 weeks", Rule("weekly", START, interval=2)),
        ("every month until 2026-12-31", Rule("monthly", START, until=date(2026, 12, 31))),
        ("every year, 3 times", Rule("yearly", START, count=3)),
    ],
    ids=["day", "two-weeks", "until", "count"],
)
def test_parse(text, rule):
    assert parse_rule(text, START) == rule


@pytest.mark.parametrize(
    "text",
    ["", "weekly", "every 0 days", "every day until 2026-02-30"],
    ids=["empty", "word", "interval", "date"],
)
def test_not_a_rule(text):
    with pytest.raises(RuleError):
        parse_rule(text, START)


@pytest.mark.xfail(reason="weekdays are not supported yet", raises=RuleError, strict=True)
def test_weekday():
    assert parse_rule("every monday", START).first(1) == [START]
