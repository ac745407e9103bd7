"""Verdicts that were given once more; the changed ones first."""

from __future__ import annotations

from swe_sdk.grading.regrades import Regrade, Regrades
from swe_sdk.notebook.amounts import many
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Cell, Facts, Table, View, Word
from swe_sdk.notebook.palette import STATUS, TEST, VERDICT, style_of
from swe_sdk.notebook.reprs.outcome import why
from swe_sdk.notebook.reprs.outcomes import why_cell

_HEAD = ("changed", "name", "before", "after", "tests", "why")


def regrades_view(regrades: Regrades) -> View:
    """How many changed, and a table."""
    order = sorted(regrades, key=lambda each: not each.changed)[:SHOWN_ROWS]
    path = None if regrades.path is None else Word(str(regrades.path), "code")
    facts = Facts((("path", path), ("could not be graded again", len(regrades.skipped) or None)))
    title = (Word("Regrades", "strong"), f" {regrades.summary}")
    return View(title, (facts, Table(_HEAD, [_row(each) for each in order], len(regrades))))


def regrade_view(regrade: Regrade) -> View:
    """Both verdicts, and the tests that differ."""
    before, after = Badge(VERDICT[regrade.before.status]), Badge(VERDICT[regrade.after.status])
    rows = [_change(*change) for change in regrade.tests]
    table = Table(("before", "now", "test"), rows, title="tests that differ") if rows else None
    return View((Word(regrade.name, "strong"), " ", before, " → ", after), (*why(regrade.after), table))


def _change(name: str, before: str, after: str) -> tuple[Cell, ...]:
    return Badge(style_of(TEST, before)), Badge(style_of(TEST, after)), Word(name, "code")


def _row(regrade: Regrade) -> tuple[Cell, ...]:
    changed: Cell = Badge(STATUS["retrying"], "changed") if regrade.changed else ""
    before, after = Badge(VERDICT[regrade.before.status]), Badge(VERDICT[regrade.after.status])
    tests = many(len(regrade.tests), "test") if regrade.tests else ""
    return changed, Word(regrade.name, "code"), before, after, tests, why_cell(None, None, regrade.after.reason)
