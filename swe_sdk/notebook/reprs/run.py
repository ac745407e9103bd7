"""A run: how far it is, what came of it, its rollouts."""

from __future__ import annotations

from collections import Counter

from swe_sdk.notebook.amounts import moment, seconds
from swe_sdk.notebook.blocks import Badge, Bar, Cell, Facts, Note, Segment, View, Word
from swe_sdk.notebook.palette import ROLLOUT, STATUS, style_of
from swe_sdk.notebook.reprs.outcomes import masks_bar
from swe_sdk.notebook.reprs.rollouts import rollouts_table
from swe_sdk.runs.run import Run
from swe_sdk.store.rows import RunRow
from swe_sdk.store.standing import word_of


def run_view(run: Run) -> View:
    """Counts by status, masks by kind, a row a rollout."""
    row = run.row
    title = (_state(row), " ", Word(row.name or row.run, "strong"), Word(f"  {row.rollouts:,} rollouts", "muted"))
    counts = _counts(row)
    stopped = Note(STATUS["stopped"], row.message) if row.message and row.end_reason != "finished" else None
    masks = masks_bar(Counter(run.masked_by_kind))
    return View(title, (_facts(run, row), counts, masks, stopped, rollouts_table(run.rollouts)))


def _state(row: RunRow) -> Badge:
    """How it ended; of one that did not, whether somebody still works on it."""
    if row.ended_at is not None:
        return Badge(STATUS["resolved" if row.end_reason == "finished" else "stopped"], row.end_reason or "ended")
    if row.alive is None:
        return Badge(STATUS["queued"], "not ended")
    return Badge(STATUS["running"], "running") if row.alive else Badge(STATUS["stopped"], "killed: resume it")


def _counts(row: RunRow) -> Bar | None:
    known = [(name, row.counts[name]) for name in STATUS if row.counts.get(name)]
    others = [(name, count) for name, count in row.counts.items() if name not in STATUS and count]
    styles = ((style_of(ROLLOUT, word_of(row, name)), count) for name, count in (*known, *others))
    segments = [Segment(style, count, f"{count:,}") for style, count in styles]
    missing = (row.expected or 0) - row.rollouts
    if missing > 0:
        segments.append(Segment(STATUS["queued"].named("not begun"), missing, f"{missing:,}"))
    return Bar(tuple(segments)) if segments else None


def _facts(run: Run, row: RunRow) -> Facts:
    mean = "" if row.reward_mean is None else f"{row.reward_mean:.3f} over what was measured"
    took = None if row.started_at is None or row.ended_at is None else seconds(row.ended_at - row.started_at)
    place: Cell = Word(str(run.path), "code")
    return Facts(
        (
            ("mean reward", mean),
            ("agent", row.agent),
            ("model", row.model),
            ("dataset", row.dataset),
            ("started", moment(row.started_at)),
            ("took", took),
            ("resumed", row.times_resumed or None),
            ("path", place),
        )
    )
