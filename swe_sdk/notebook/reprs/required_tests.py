"""Required tests: what did not pass as a table, what did behind a fold."""

from __future__ import annotations

from swe_sdk.model.outcome import MISSING, TestReport
from swe_sdk.notebook.amounts import many
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Block, Fold, Table, Word
from swe_sdk.notebook.palette import TEST, style_of

_GOOD = ("PASSED", "XFAIL")
_Row = tuple[str, str, str]


def tests_blocks(tests: TestReport) -> tuple[Block, ...]:
    """Required tests with their status; nothing where there are none."""
    lists = (("fail to pass", tests.fail_to_pass), ("pass to pass", tests.pass_to_pass))
    rows = [(status, name, label) for label, found in lists for name, status in found.items()]
    if rows and all(status == MISSING for status, _name, _label in rows):
        return (Fold((f"{many(len(rows), 'required test')}, none of which was run",), (_table(rows),)),)
    bad = [row for row in rows if row[0] not in _GOOD]
    good = [row for row in rows if row[0] in _GOOD]
    failed = (_table(bad),) if bad else ()
    passed = (Fold((f"{many(len(good), 'required test')} passed",), (_table(good),)),) if good else ()
    return (*failed, *passed)


def _table(rows: list[_Row]) -> Table:
    shown = [(Badge(style_of(TEST, status)), Word(name, "code"), label) for status, name, label in rows[:SHOWN_ROWS]]
    return Table(("status", "test", "list"), shown, len(rows))
