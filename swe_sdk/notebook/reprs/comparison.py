"""Two runs side by side: what can be concluded, and the tasks that differ."""

from __future__ import annotations

from swe_sdk.metrics.comparison import CHANGES, Comparison, TaskPair
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Bar, Cell, Facts, Segment, Table, View, Word
from swe_sdk.notebook.palette import CHANGE

_HEAD = ("change", "task", "a", "b", "masked in a", "masked in b")
_ORDER = ("gained", "lost", "masked", "only in a", "only in b", "same")


def comparison_view(comparison: Comparison) -> View:
    """The test and the difference, counts by change, and a table: tasks that differ first."""
    order = sorted(comparison, key=lambda pair: _ORDER.index(pair.change))[:SHOWN_ROWS]
    moved = comparison.if_masks_were_known
    facts = Facts(
        (
            ("a", Word(comparison.a, "code")),
            ("b", Word(comparison.b, "code")),
            ("b less a", str(comparison.difference)),
            (comparison.test, f"p = {comparison.p_value:.3g}" if comparison.measured else None),
            ("masks could move it to", None if moved is None else f"{moved.low:+.3f} or {moved.high:+.3f}"),
        )
    )
    counts = comparison.counts
    segments = tuple(Segment(CHANGE[name], counts[name], f"{counts[name]:,}") for name in CHANGES if counts[name])
    bar = Bar(segments) if segments else None
    title = (Word("Comparison", "strong"), f" {comparison.summary.splitlines()[0]}")
    return View(title, (facts, bar, Table(_HEAD, [_row(pair) for pair in order], len(comparison))))


def _row(pair: TaskPair) -> tuple[Cell, ...]:
    masked = (pair.a.masked or "", pair.b.masked or "")
    return Badge(CHANGE[pair.change]), Word(pair.instance_id, "code"), pair.verdict_a, pair.verdict_b, *masked
