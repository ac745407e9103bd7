"""Many outcomes: counts that keep masks apart, and a table."""

from __future__ import annotations

from collections import Counter

from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.model.outcome import Outcome
from swe_sdk.notebook.amounts import clipped, many, seconds
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Bar, Block, Cell, Facts, Segment, Table, View, Word
from swe_sdk.notebook.palette import MASK_KIND, VERDICT, style_of

_HEAD = ("status", "task", "reward", "tests", "why", "time")
_REASON = 100
"""Characters of a reason in a table; the object itself shows all of it."""


def outcomes_view(outcomes: Outcomes) -> View:
    """Counts, masks by kind, a row an outcome."""
    mean = "" if outcomes.mean_reward is None else f"{outcomes.mean_reward:.3f} over what was measured"
    title = (Word("Outcomes", "strong"), f" {many(len(outcomes), 'task')}")
    facts = Facts(
        (("mean reward", mean), ("without a patch", len(outcomes.skipped) or None), ("path", _path(outcomes)))
    )
    counts = status_bar(Counter(outcome.status for outcome in outcomes))
    kinds = masks_bar(Counter(outcome.mask.kind for outcome in outcomes if outcome.mask is not None))
    rows = [_row(outcome) for outcome in outcomes[:SHOWN_ROWS]]
    return View(title, (facts, counts, kinds, Table(_HEAD, rows, len(outcomes))))


def status_bar(counts: Counter[str]) -> Block | None:
    """Resolved, unresolved and masked beside each other."""
    if not counts.total():
        return None
    return Bar(tuple(Segment(style, counts[name], f"{counts[name]:,}") for name, style in VERDICT.items()))


def masks_bar(kinds: Counter[str]) -> Block | None:
    """Masks by kind; None where nothing is masked."""
    if not kinds:
        return None
    segments = (Segment(style_of(MASK_KIND, kind), count, f"{count:,}") for kind, count in kinds.most_common())
    return Bar(tuple(segments), "masks by kind")


def why_cell(kind: str | None, stage: str | None, reason: str) -> Cell:
    """A mask by kind and stage, then the reason."""
    if kind is None:
        return clipped(reason, _REASON)
    return (Badge(style_of(MASK_KIND, kind)), clipped(f" in {stage}: {reason}", _REASON))


def _row(outcome: Outcome) -> tuple[Cell, ...]:
    mask = outcome.mask
    reason = why_cell(mask.kind, mask.stage, mask.reason) if mask is not None else why_cell(None, None, outcome.reason)
    measured = ("", "") if outcome.masked else (f"{outcome.reward:.1f}", outcome.counts)
    total = seconds(outcome.timings_s.get("total"))
    return Badge(VERDICT[outcome.status]), Word(outcome.instance_id, "code"), *measured, reason, total


def _path(outcomes: Outcomes) -> Cell:
    return None if outcomes.path is None else Word(str(outcomes.path), "code")
