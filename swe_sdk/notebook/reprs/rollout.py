"""An agent's work on a task: when each stage was, what it did, what it spent, what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swe_sdk.notebook.amounts import many, seconds
from swe_sdk.notebook.blocks import SHOWN_ROWS, Badge, Block, Cell, Fold, Lanes, Note, Span, Table, View, Word
from swe_sdk.notebook.palette import ROLLOUT, STAGE, STATUS, style_of
from swe_sdk.notebook.reprs.budget import budget_bar
from swe_sdk.notebook.reprs.mask import mask_blocks
from swe_sdk.notebook.reprs.outcome import outcome_blocks
from swe_sdk.runs.rollout import Rollout
from swe_sdk.store.rows import AttemptRow, MaskRow, StageRow, StepRow
from swe_sdk.store.standing import CUT_OFF


def rollout_view(rollout: Rollout) -> View:
    """Timeline, budget, mask, outcome, steps."""
    row = rollout.row
    reward = "" if row.reward is None or rollout.masked else f"  reward {row.reward:.1f}"
    about = f"  attempt {row.attempt}, {many(row.steps, 'step')}{reward}"
    title = (Badge(style_of(ROLLOUT, rollout.word)), " ", Word(row.rollout_id, "strong"), Word(about, "muted"))
    outcome = rollout.outcome
    judged = outcome_blocks(outcome) if outcome is not None else _mask_or_reason(rollout)
    return View(
        title,
        (
            _lanes(rollout),
            budget_bar(rollout.budget),
            *judged,
            _earlier(rollout.masks),
            *_started_over(rollout.attempts),
            _steps(rollout.steps[:SHOWN_ROWS], row.steps),
        ),
    )


def _mask_or_reason(rollout: Rollout) -> tuple[Block, ...]:
    if rollout.mask is not None:
        return mask_blocks(rollout.mask)
    row = rollout.row
    return (Note(style_of(ROLLOUT, rollout.word), row.reason),) if row.reason else ()


def _lanes(rollout: Rollout) -> Lanes | None:
    stages = rollout.stages
    began = [stage.started_at for stage in stages if stage.started_at is not None]
    if not began:
        return None
    ends = rollout.attempts_end
    label = "attempt {0.attempt}: {0.stage}" if len(ends) > 1 else "{0.stage}"
    timed = [_timed(stage, ends.get(stage.attempt), rollout.row.updated_at) for stage in stages]
    first, last = min(began), max(end for _start, end in timed)
    spans = (
        Span(
            label.format(stage),
            style_of(STAGE, stage.stage),
            start - first,
            end - start,
            _ended(stage, ends.get(stage.attempt) is not None),
            stage.seconds,
        )
        for stage, (start, end) in zip(stages, timed, strict=True)
    )
    return Lanes(tuple(spans), last - first)


def _timed(stage: StageRow, attempt_end: float | None, now: float | None) -> tuple[float, float]:
    """When it began and ended. One that did not end was cut off with its attempt, or goes on."""
    start = stage.started_at if stage.started_at is not None else (stage.ended_at or 0.0) - (stage.seconds or 0.0)
    end = stage.ended_at or attempt_end or now or start
    return start, max(start, end)


def _ended(stage: StageRow, is_cut: bool) -> Cell:
    if stage.ended_at is not None:
        return None if stage.ok else Word(stage.message or "ended badly")
    return Word(CUT_OFF if is_cut else "going on", "muted")


def _earlier(masks: Sequence[MaskRow]) -> Fold | None:
    """Masks of attempts that were tried again."""
    rows = [(row.attempt, row.mask.kind, row.mask.stage, row.mask.reason) for row in masks if not row.is_final]
    if not rows:
        return None
    table = Table(("attempt", "mask", "stage", "reason"), rows)
    return Fold((many(len(rows), "earlier mask"), Word(", tried again", "muted")), (table,))


def _started_over(attempts: Sequence[AttemptRow]) -> Iterator[Note]:
    """Attempts that a checkpoint held, and that could not go on from it."""
    for row in attempts:
        if row.restart_reason:
            yield Note(style_of(STATUS, "retrying"), f"attempt {row.attempt} started over: {row.restart_reason}")


def _steps(steps: Sequence[StepRow], total: int) -> Fold | None:
    if not steps:
        return None
    with_attempts = any(step.attempt > 1 for step in steps)
    with_tokens = any(step.tokens_in or step.tokens_out for step in steps)
    attempt = ("attempt",) if with_attempts else ()
    tokens = ("tokens in", "tokens out") if with_tokens else ()
    rows = [_step(step, with_attempts, with_tokens) for step in steps]
    table = Table((*attempt, "step", "kind", "summary", "time", *tokens), rows, max(total, len(steps)))
    return Fold((many(max(total, len(steps)), "step"),), (table,), is_open=total <= SHOWN_ROWS // 2)


def _step(row: StepRow, with_attempts: bool, with_tokens: bool) -> tuple[Cell, ...]:
    """One row; of agents that need no model, and of first attempts, some columns would say nothing."""
    summary = Word(row.step.summary if row.step is not None else "", "code")
    attempt = (row.attempt,) if with_attempts else ()
    tokens = (row.tokens_in, row.tokens_out) if with_tokens else ()
    return *attempt, row.n, row.step_kind, summary, seconds(row.seconds), *tokens
