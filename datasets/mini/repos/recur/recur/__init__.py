"""Recurring dates."""

from .parse import RuleError, parse_rule
from .rule import Rule

__all__ = ["Rule", "RuleError", "parse_rule"]
