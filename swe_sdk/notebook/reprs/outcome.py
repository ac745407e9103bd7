"""What a patch is worth, and why."""

from __future__ import annotations

from swe_sdk.model.outcome import Outcome
from swe_sdk.notebook.amounts import seconds
from swe_sdk.notebook.blocks import Badge, Bar, Block, Facts, Fold, Inline, Note, Segment, Table, View, Word
from swe_sdk.notebook.palette import TIMING, VERDICT, style_of
from swe_sdk.notebook.reprs.mask import evidence_fold, mask_blocks
from swe_sdk.notebook.reprs.required_tests import tests_blocks


def outcome_view(outcome: Outcome) -> View:
    """Verdict, mask or reason, table of tests, time, evidence."""
    worth = "no measurement" if outcome.masked else f"reward {outcome.reward:.1f}, {outcome.counts}"
    title: tuple[Inline, ...] = (
        Badge(VERDICT[outcome.status]),
        " ",
        Word(outcome.instance_id, "strong"),
        Word(f"  {worth}", "muted"),
    )
    return View(title, outcome_blocks(outcome))


def outcome_blocks(outcome: Outcome) -> tuple[Block | None, ...]:
    """All but its title, within the view of something else."""
    facts = (("family", outcome.family), ("provider", outcome.provider), ("patch", _patch(outcome)))
    return (
        Facts((*facts, ("flags", ", ".join(outcome.flags)))),
        *why(outcome),
        *tests_blocks(outcome.tests),
        _times(outcome.timings_s),
        *evidence_fold(outcome.evidence, "evidence"),
        _artifacts(outcome.artifacts),
    )


def why(outcome: Outcome) -> tuple[Block, ...]:
    """The mask, or the reason of a verdict."""
    if outcome.mask is not None:
        return mask_blocks(outcome.mask)
    return (Note(VERDICT[outcome.status], outcome.reason),) if outcome.reason else ()


def _patch(outcome: Outcome) -> str:
    patch = outcome.patch
    if not patch.exists:
        return "empty"
    if patch.applied is None:
        return "not tried"
    return f"applied by {patch.rung}" if patch.applied else "does not apply"


def _times(timings_s: dict[str, float]) -> Bar | None:
    parts = [(name, spent) for name, spent in timings_s.items() if name != "total" and spent > 0]
    if not parts:
        return None
    order = {name: place for place, name in enumerate(TIMING)}
    parts.sort(key=lambda part: order.get(part[0], len(order)))
    segments = tuple(Segment(style_of(TIMING, name), spent, seconds(spent)) for name, spent in parts)
    return Bar(segments, f"time {seconds(timings_s.get('total', sum(spent for _, spent in parts)))}")


def _artifacts(artifacts: dict[str, str]) -> Fold | None:
    if not artifacts:
        return None
    rows = [(name, Word(path, "code")) for name, path in artifacts.items()]
    return Fold((Word(f"files ({', '.join(artifacts)})"),), (Table(("file", "path"), rows),))
