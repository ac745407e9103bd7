"""Summaries of matplotlib's pytest runs.

Behaviour (not code) follows ``parse_log_matplotlib`` of swebench 5.0.2.
"""

from __future__ import annotations

from swe_sdk.recipes.parsers.pytest import parse_pytest


def parse_matplotlib(log: str) -> dict[str, str]:
    """As pytest's summary, with mouse buttons in ids as numbers, so that ids agree between versions of Python."""
    return parse_pytest(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))
