"""Masks: what could not be measured, why, when, and what to do about it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from swe_sdk.dashboard.components import (
    PAGE_ROWS,
    Column,
    card,
    csv_link,
    empty,
    heading,
    offset_of,
    pager,
    stats,
    table,
    tabs,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.forms import choice_field, clear_link, filter_form
from swe_sdk.dashboard.parts.mask_cards import BUCKETS, advice_card, is_chosen, kinds_card, retry_card, time_card
from swe_sdk.dashboard.parts.mask_table import matrix_card
from swe_sdk.dashboard.show import ago, count, percent, pill
from swe_sdk.dashboard.view import View
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.rows import FINAL, MaskRow, Page
from swe_sdk.store.sum_rows import MaskCell, MaskTimes

_CSV_PAGE = 2000
_WHAT_A_MASK_IS = (
    "A masked rollout is no measurement: something other than the patch decided. Its reward 0.0 is left out of every "
    "mean."
)


def _render(context: Context) -> Html:
    base = _base(context)
    every = context.once(("mask cells", base.model_dump_json()), lambda: context.index.mask_cells(base))
    chosen = [cell for cell in every if is_chosen(context, cell)]
    head = heading("Masks", _WHAT_A_MASK_IS, csv_link(context, "masks") if every else None)
    if not every:
        return join(head, _filters(context, every), _nothing(context))
    times = _times(context, base)
    kinds = context.state.mask_kind or tuple({cell.kind for cell in every})
    advice = advice_card(kinds[0]) if len(kinds) == 1 else None
    beside = el("div", advice, time_card(times) if times else None, retry_card(context, every), cls="stack")
    return join(
        head,
        _filters(context, every),
        el("section", _stats(context, base, every), cls="card"),
        el("div", kinds_card(context, every), beside, cls="cards two"),
        matrix_card(context, chosen) if len(chosen) > 1 else None,
        _evidence(context, chosen),
    )


def _times(context: Context, base: RolloutFilter) -> MaskTimes | None:
    """Of the kinds that are chosen, on the axis of all kinds: it stays while they are chosen."""
    kinds, stage = context.state.mask_kind, context.state.mask_stage
    key = ("mask times", base.model_dump_json(), stage)
    found = context.once(key, lambda: context.index.mask_times(base, stage=stage, buckets=BUCKETS))
    if found is None or not kinds:
        return found
    return found.model_copy(update={"buckets": tuple(each for each in found.buckets if each.kind in kinds)})


def _base(context: Context) -> RolloutFilter:
    """Of rollouts; kind and stage are asked of the masks themselves, for attempts that were tried again."""
    return context.state.filter.model_copy(update={"mask_kind": (), "mask_stage": ()})


def _nothing(context: Context) -> Html:
    if context.state.is_filtered:
        return empty("No masks here", "Nothing that these filters hold for was masked.")
    return empty(
        "Nothing was masked",
        "Every rollout that is over was measured. If a box dies, a disk fills up or a model cannot be reached, its "
        "rollouts are listed here, with the facts behind it.",
        "swe-sdk show RUN --status masked",
    )


# -- above -------------------------------------------------------------------------------------------------------------


def _filters(context: Context, cells: Sequence[MaskCell]) -> Html:
    kinds, stages, providers, runs = (
        Counter[str](),
        Counter[str](),
        Counter[str](),
        Counter[str](),
    )
    for cell in cells:
        kinds[cell.kind] += cell.attempts
        stages[cell.stage] += cell.attempts
        providers[cell.provider] += cell.attempts
        runs[cell.run] += cell.attempts
    fields = (
        choice_field(context, "mask_kind", "kind", [(k, pill("mask", k), n) for k, n in kinds.most_common()]),
        choice_field(context, "mask_stage", "stage", [(k, k, n) for k, n in stages.most_common()]),
        choice_field(context, "provider", "provider", [(k, k, n) for k, n in providers.most_common() if k]),
        choice_field(context, "run", "run", [(k, cut(k, 48), n) for k, n in runs.most_common()]),
    )
    return filter_form(
        context, *fields, clear_link(context), names=("mask_kind", "mask_stage", "provider", "run"), key="mask-filters"
    )


def _stats(context: Context, base: RolloutFilter, cells: Sequence[MaskCell]) -> Html:
    key = ("by status", base.model_dump_json())
    groups = context.once(key, lambda: context.index.groups("status", base))
    over = sum(group.rollouts for group in groups if group.value in FINAL)
    final = sum(cell.attempts for cell in cells if cell.is_final)
    worth_it = sum(cell.attempts for cell in cells if cell.is_final and cell.retryable)
    share = el("small", f" {percent(final, over)} of {count(over)} that are over")
    return stats(
        ("rollouts masked", [count(final), share]),
        ("attempts masked, then tried again", count(sum(c.attempts for c in cells) - final)),
        ("worth another attempt", count(worth_it)),
        ("kinds", count(len({cell.kind for cell in cells}))),
    )


# -- the evidence ------------------------------------------------------------------------------------------------------


def _masks(context: Context, offset: int, limit: int) -> Page[MaskRow]:
    """A page of the masked attempts that the state is about."""
    state = context.state
    which = _which(context)
    return context.index.masks(
        _base(context),
        kind=state.mask_kind,
        stage=state.mask_stage,
        final={"final": True, "worth": True, "retried": False}.get(which),
        retryable=True if which == "worth" else None,
        offset=offset,
        limit=limit,
        total=False,
    )


def _which(context: Context) -> str:
    """Which of the masked attempts are listed; empty = all."""
    return context.state.get("which", among=("", "final", "worth", "retried"))


def _number(which: str, cells: Sequence[MaskCell]) -> int:
    """How many masked attempts are listed: the cells have counted them."""
    if which == "retried":
        return sum(cell.attempts for cell in cells if not cell.is_final)
    wanted = [cell for cell in cells if which == "" or cell.is_final]
    return sum(cell.attempts for cell in wanted if which != "worth" or cell.retryable)


def _evidence(context: Context, cells: Sequence[MaskCell]) -> Html:
    page = _masks(context, offset_of(context), PAGE_ROWS)
    which = _which(context)
    total = _number(which, cells)
    shown = (
        Column[MaskRow]("rollout", lambda row: context.rollout_link(row.run, row.rollout_id, attempt=row.attempt)),
        Column[MaskRow]("kind", lambda row: pill("mask", row.mask.kind)),
        Column[MaskRow]("stage", lambda row: row.mask.stage),
        Column[MaskRow]("when", lambda row: ago(row.at)),
        Column[MaskRow]("attempt", lambda row: count(row.attempt), cls="num"),
        Column[MaskRow]("and then", _after),
        Column[MaskRow]("the evidence", _facts, cls="wrap grow-wrap"),
    )
    choice = tabs(
        context,
        (("", "all"), ("final", "ended with it"), ("worth", "worth another attempt"), ("retried", "tried again")),
        which,
        field="which",
    )
    listed = table(
        context,
        shown,
        page.rows,
        key=lambda row: f"{row.run}/{row.rollout_id}/{row.attempt}",
        label="masked attempts",
        nothing="no masked attempt is like that",
    )
    return card(
        "The evidence", choice, listed, pager(context, total, what="masked attempts"), cls="wide", key="evidence"
    )


def _after(row: MaskRow) -> Child:
    if not row.is_final:
        return el("span", "tried again", cls="dim")
    return "worth another attempt" if row.mask.retryable else el("span", "stays masked", cls="dim")


def _facts(row: MaskRow) -> Child:
    """What was found outside the graded program: in one line, and whole when it is opened."""
    if not row.mask.evidence:
        return cut(row.mask.reason, 300)
    brief = ", ".join(f"{name} {value}" for name, value in row.mask.evidence.items())
    told = el("summary", cut(row.mask.reason, 200), el("span", f" · {cut(brief, 100)}", cls="dim"))
    whole = json.dumps(row.mask.evidence, indent=1, ensure_ascii=False, default=str)
    return el("details", told, el("pre", whole[:20_000], cls="evidence"), key=f"facts-{row.rollout_id}-{row.attempt}")


def _csv(context: Context) -> Iterator[Sequence[object]]:
    """All masked attempts that the state is about, with their evidence as JSON."""
    yield (
        "run",
        "rollout_id",
        "attempt",
        "kind",
        "stage",
        "reason",
        "retryable",
        "is_final",
        "at",
        "provider",
        "evidence",
    )
    offset, is_more = 0, True
    while is_more:
        page = _masks(context, offset, _CSV_PAGE)
        for row in page.rows:
            mask = row.mask
            about = (mask.kind, mask.stage, mask.reason, mask.retryable, row.is_final, row.at, row.provider)
            yield (row.run, row.rollout_id, row.attempt, *about, json.dumps(mask.evidence, default=str))
        offset, is_more = offset + _CSV_PAGE, len(page.rows) == _CSV_PAGE


VIEW = View(
    "masks",
    "Masks",
    _render,
    hint="what could not be measured, why, and what to do about it",
    exports={"masks": _csv},
)
