"""Budgets: what rollouts have spent, how long they were parked, who is about to run out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

from swe_sdk.dashboard.columns import Column as Bar
from swe_sdk.dashboard.columns import axis, columns, legend
from swe_sdk.dashboard.components import (
    PAGE_ROWS,
    Column,
    bar,
    budget_bar,
    card,
    csv_link,
    empty,
    heading,
    notice,
    offset_of,
    pager,
    png_button,
    stats,
    table,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.forms import choice_field, clear_link, filter_form, search_field
from swe_sdk.dashboard.parts.parked import parked_mark
from swe_sdk.dashboard.show import DASH, ago, colour_of, count, percent, pill, seconds
from swe_sdk.dashboard.view import View
from swe_sdk.notebook.palette import ROLLOUT
from swe_sdk.store.filters import RolloutFilter, SortColumn
from swe_sdk.store.rows import RolloutRow
from swe_sdk.store.standing import CUT_OFF, GOING_ON, is_over
from swe_sdk.store.sum_rows import BudgetBin, RunBudget, UnderWay

_BINS = 21
_SOON = 8
_MOST_RUNS = 14
_SORTS: Sequence[SortColumn] = ("rollout_id", "status", "spent_s", "parked_s", "queued_s", "remaining_s", "total_s")
_DEFAULT_SORT = "-spent_s"
_WHAT = (
    "A budget is for all stages of a rollout together. Time for which it is parked (for a checkpoint) or waits in the "
    "queue is counted, and never charged."
)


def _render(context: Context) -> Html:
    chosen = context.state.filter
    head = heading("Budgets", _WHAT, csv_link(context, "budgets"))
    totals = context.once(("budgets", chosen.model_dump_json()), lambda: context.index.budget_totals(chosen))
    if totals.rollouts == 0 and not context.state.is_filtered:
        return join(head, _nothing())
    per_run = context.once(("run budgets", chosen.model_dump_json()), lambda: context.index.run_budgets(chosen))
    limited = sum(each.limited for each in per_run)
    beside = el("div", _spread(context, chosen), _soon(context, chosen), cls="stack")
    return join(
        head,
        _filters(context),
        el("section", _stats(context, per_run, limited), cls="card"),
        notice(_NO_LIMIT) if per_run and not limited else None,
        el("div", beside, _by_run(context, per_run), cls="cards two"),
        _every(context, chosen),
    )


_NO_LIMIT = (
    "These rollouts have no budget (yet): they end when their agent does, or when a stage takes too long. "
    'Give one with swe.run(..., budget="30m") or --budget 30m.'
)


def _nothing() -> Html:
    return empty(
        "No budgets yet",
        "As soon as a stage of a rollout is over, what it has spent of its budget is here.",
        "swe-sdk run mini --agent gold --budget 30m",
    )


def _filters(context: Context) -> Html:
    counts = sum((Counter(row.counts) for row in context.runs), Counter[str]())
    statuses = [(each, pill("status", each), number) for each, number in counts.most_common()]
    runs = [(row.run, cut(row.run, 48), row.rollouts) for row in context.all_runs]
    fields = (
        search_field(context, "part of a task's name"),
        choice_field(context, "status", "status", statuses),
        choice_field(context, "run", "run", runs[:200]),
    )
    return filter_form(context, *fields, clear_link(context), names=("text", "status", "run"), key="budget-filters")


def _stats(context: Context, per_run: Sequence[RunBudget], limited: int) -> Html:
    spent, whole, parked, queued = (
        sum(getattr(each, name) for each in per_run) for name in ("spent_s", "total_s", "parked_s", "queued_s")
    )
    exhausted = sum(each.exhausted for each in per_run)
    stand = parked_mark(context.runs)
    return stats(
        ("spent", [seconds(spent), el("small", f" {percent(spent, whole)} of all budgets")]),
        ("left", seconds(max(0.0, whole - spent) if limited else None)),
        ("parked, not charged", [seconds(parked), el("small", " ", stand, " now") if stand else None]),
        ("queued, not charged", seconds(queued)),
        ("ran out", [count(exhausted), el("small", f" {percent(exhausted, limited)}")]),
    )


# -- how much of it ----------------------------------------------------------------------------------------------------


def _spread(context: Context, chosen: RolloutFilter) -> Html | None:
    key = ("budget bins", chosen.model_dump_json())
    found = context.once(key, lambda: context.index.budget_bins(chosen, bins=_BINS))
    if not found:
        return None
    by_bin: dict[int, Counter[str]] = {}
    for each in found:
        by_bin.setdefault(each.bin, Counter())[each.status] += each.rollouts
    for each in _cut_off(context, chosen):
        by_bin[each.bin][each.status] -= each.rollouts
        by_bin[each.bin][CUT_OFF] += each.rollouts
    words = [word for word in ROLLOUT if any(counts[word] > 0 for counts in by_bin.values())]
    drawing = columns(
        [_bin(number, words, by_bin.get(number, Counter())) for number in range(_BINS)],
        label="rollouts by the share of their budget that is spent",
        key="budget-spread",
    )
    below = axis("nothing spent", "half", "all of it")
    shown = [("status", colour_of(word), ROLLOUT[word].label) for word in words]
    number = sum(each.rollouts for each in found)
    return card(
        "How much of its budget a rollout has spent",
        drawing,
        below,
        legend(shown),
        note=[png_button("budget-spread"), f"{count(number)} rollouts; the last column has spent all of it"],
        key="spread",
    )


def _cut_off(context: Context, chosen: RolloutFilter) -> list[BudgetBin]:
    """Those of them that were going on when their run ended."""
    ended = tuple(row.run for row in context.runs if is_over(row) and any(row.counts.get(each) for each in GOING_ON))
    words = tuple(word for word in GOING_ON if not chosen.status or word in chosen.status)
    if not (ended and words):
        return []
    among = chosen.model_copy(update={"run": ended, "status": words})
    return context.once(("cut off bins", among.model_dump_json()), lambda: context.index.budget_bins(among, bins=_BINS))


def _bin(number: int, words: Sequence[str], counts: Counter[str]) -> Bar:
    step = 100 / (_BINS - 1)
    what = "all of it" if number == _BINS - 1 else f"{number * step:.0f} to {(number + 1) * step:.0f} %"
    told = ", ".join(f"{word} {counts[word]}" for word in words if counts[word])
    return Bar(
        [("status", colour_of(word), counts[word]) for word in words],
        title=f"{what}: {counts.total()} rollouts ({told})",
    )


# -- who is about to run out -------------------------------------------------------------------------------------------


def _soon(context: Context, chosen: RolloutFilter) -> Html:
    """Of runs whose process lives (or may, on another machine): the clock of a dead one stands."""
    going = tuple(row.run for row in context.runs if row.ended_at is None and row.alive is not False)
    rows = []
    if going:
        among = chosen.model_copy(update={"run": going})
        rows = context.index.under_way(among, now=context.now, limit=_SOON)
    if not rows:
        why = "No rollout with a budget is under way. Of runs that go on, those with the least time left are here."
        return card("About to run out", el("p", why, cls="dim"), key="soon")
    shown = (
        Column[UnderWay]("rollout", lambda row: context.rollout_link(row.run, row.rollout_id), cls="grow"),
        Column[UnderWay]("now", lambda row: pill("status", row.status, label=row.stage or row.status)),
        Column[UnderWay](
            "budget", lambda row: budget_bar(row.total_s, row.spent_s + row.working_s, row.parked_s), cls="bar-cell"
        ),
        Column[UnderWay]("runs out", lambda row: _ends(row, context.now), cls="num"),
    )
    listed = table(context, shown, rows, key=lambda row: f"{row.run}/{row.rollout_id}", label="about to run out")
    note = "by the clock since its stage began; what is there when it ends is graded"
    return card("About to run out", listed, note=note, key="soon")


def _ends(row: UnderWay, now: float) -> Child:
    if row.left_s <= 0:
        return el("span", "any moment", cls="tone-status-unresolved strong")
    if row.status != "running":
        return el("span", f"{seconds(row.left_s)} left, clock stands", cls="dim")
    return ago(now + row.left_s)


# -- lists -------------------------------------------------------------------------------------------------------------


def _by_run(context: Context, found: Sequence[RunBudget]) -> Html | None:
    if len(found) < 2:
        return None
    shown = (
        Column[RunBudget]("run", lambda each: cut(each.run, 60), cls="grow"),
        Column[RunBudget]("", _parts, cls="bar-cell"),
        Column[RunBudget]("spent", lambda each: seconds(each.spent_s), cls="num"),
        Column[RunBudget]("parked", lambda each: seconds(each.parked_s), cls="num"),
        Column[RunBudget]("ran out", lambda each: count(each.exhausted) if each.limited else DASH, cls="num"),
    )

    def href(each: RunBudget) -> str:
        return context.href(run=(each.run,))

    listed = table(context, shown, found[:_MOST_RUNS], key=lambda each: each.run, href=href, label="budgets by run")
    note = f"the newest {_MOST_RUNS} of {len(found)}" if len(found) > _MOST_RUNS else None
    return card("By run", listed, note=note, key="by-run")


def _parts(each: RunBudget) -> Html:
    if not each.limited:
        return budget_bar(None, each.spent_s, each.parked_s)
    left = max(0.0, each.total_s - each.spent_s)
    return bar([("budget", "spent", each.spent_s), ("budget", "remaining", left), ("budget", "parked", each.parked_s)])


def _sort(context: Context) -> tuple[SortColumn, bool]:
    column, is_down = context.state.sorted_by
    return (cast(SortColumn, column), is_down) if column in _SORTS else ("spent_s", True)


def _every(context: Context, chosen: RolloutFilter) -> Html:
    sort, is_down = _sort(context)
    page = context.index.rollouts(
        chosen, sort=sort, descending=is_down, offset=offset_of(context), limit=PAGE_ROWS, total=True
    )
    shown: list[Column[RolloutRow]] = [
        Column("rollout", lambda row: cut(row.rollout_id, 80), sort="rollout_id", cls="grow"),
        Column("status", context.status_of, sort="status"),
        Column("budget", lambda row: budget_bar(row.total_s, row.spent_s, row.parked_s), cls="bar-cell"),
        Column("spent", lambda row: seconds(row.spent_s), sort="spent_s", cls="num"),
        Column("left", lambda row: seconds(row.remaining_s), sort="remaining_s", cls="num"),
        Column("of", lambda row: seconds(row.total_s), sort="total_s", cls="num"),
        Column("parked", lambda row: seconds(row.parked_s), sort="parked_s", cls="num"),
        Column("queued", lambda row: seconds(row.queued_s), sort="queued_s", cls="num"),
        Column("attempt", _attempt, cls="num"),
    ]
    listed = table(
        context,
        shown,
        page.rows,
        key=lambda row: f"{row.run}/{row.rollout_id}",
        href=lambda row: f"?{context.state.but(view='rollout', run=(row.run,), rollout=row.rollout_id).query}",
        sorted_by=_DEFAULT_SORT,
        label="budgets of rollouts",
        nothing="no rollout is like that",
    )
    colours = legend([("budget", word, word) for word in ("spent", "remaining", "parked")])
    below = pager(context, page.total or 0, what="rollouts")
    return card("Rollouts", colours, listed, below, cls="wide", key="every")


def _attempt(row: RolloutRow) -> Child:
    """A restored attempt has what its checkpoint left it."""
    told = f"it went on from {cut(row.restored_from, 60)}" if row.restored_from else None
    return el("span", count(row.attempt), " ↻" if row.restored_from else None, title=told) if row.attempt else None


def _csv(context: Context) -> Iterator[Sequence[object]]:
    """The budgets of all rollouts of the filter."""
    names = ("run", "rollout_id", "status", "attempt", "total_s", "spent_s", "remaining_s", "parked_s", "queued_s")
    yield names
    sort, is_down = _sort(context)
    cursor: str | None = None
    while True:
        page = context.index.rollouts(
            context.state.filter, sort=sort, descending=is_down, limit=2000, cursor=cursor, total=False
        )
        yield from ([getattr(row, name) for name in names] for row in page.rows)
        cursor = page.cursor
        if cursor is None:
            return


VIEW = View(
    "budgets",
    "Budgets",
    _render,
    hint="what is spent, parked and left; who is about to run out",
    exports={"budgets": _csv},
)
