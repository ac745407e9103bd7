"""Read rules such as ``every 2 weeks until 2026-12-31``."""

from __future__ import annotations

import re
from datetime import date

from .rule import Rule

_FREQUENCY = {"day": "daily", "week": "weekly", "month": "monthly", "year": "yearly"}
_RULE = re.compile(
    r"every\s+(?:(?P<interval>\d+)\s+)?(?P<unit>day|week|month|year)s?"
    r"(?:\s+until\s+(?P<until>\d{4}-\d{2}-\d{2}))?"
    r"(?:,?\s+(?P<count>\d+)\s+times)?",
    re.IGNORECASE,
)


class RuleError(ValueError):
    """A text that is not a rule."""


def parse_rule(text: str, start: date) -> Rule:
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise RuleError(f"cannot read the rule {text!r}")
    try:
        until: date | None = date.fromisoformat(match["until"]) if match["until"] else None
        return Rule(
            _FREQUENCY[match["unit"].lower()],
            start,
            interval=int(match["interval"] or 1),
            until=until,
            count=int(match["count"]) if match["count"] else None,
        )
    except ValueError as error:
        raise RuleError(f"cannot read the rule {text!r}: {error}") from error
