"""Rollouts: all of them, a page at a time, filtered and sorted by the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast, get_args

from swe_sdk.dashboard.components import (
    PAGE_ROWS,
    Column,
    budget_bar,
    csv_link,
    empty,
    heading,
    offset_of,
    pager,
    stats,
    table,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.forms import choice_field, clear_link, filter_form, search_field
from swe_sdk.dashboard.show import ago, count, percent, pill, reward, seconds
from swe_sdk.dashboard.view import View
from swe_sdk.store.events import RolloutStage
from swe_sdk.store.filters import SORT_COLUMNS, GroupColumn, SortColumn
from swe_sdk.store.rows import GroupRow, RolloutRow
from swe_sdk.store.standing import CUT_OFF, GOING_ON, is_over

_CHOICES: tuple[tuple[GroupColumn, str, str], ...] = (
    ("run", "run", ""),
    ("status", "status", "status"),
    ("mask_kind", "mask", "mask"),
    ("family", "family", ""),
    ("agent", "agent", ""),
    ("model", "model", ""),
    ("provider", "provider", ""),
)
"""Column, how its menu is called, and the table of its colours."""
_DEFAULT_SORT = "-updated_at"
_CSV_PAGE = 2000
_MOST_LINKED = 20
_ALL_RUNS = "*"
_STAGES: tuple[str, ...] = get_args(RolloutStage)


def sort_of(context: Context) -> tuple[SortColumn, bool]:
    """The order of the table: the column, and whether the largest is first; the default for one that there is not."""
    column, is_down = context.state.sorted_by
    if column not in SORT_COLUMNS:
        column, is_down = _DEFAULT_SORT.lstrip("-"), True
    return cast(SortColumn, column), is_down


def _render(context: Context) -> Html:
    sort, is_down = sort_of(context)
    chosen = context.state.filter
    page = context.index.rollouts(
        chosen, sort=sort, descending=is_down, offset=offset_of(context), limit=PAGE_ROWS, total=True
    )
    total = page.total or 0
    if total == 0 and not context.state.is_filtered:
        why = "A run that is going shows its rollouts here as soon as they are queued."
        return empty("No rollouts yet", why, f"swe-sdk run mini --agent gold --path {context.root}/first")
    groups = context.once(("by status", chosen.model_dump_json()), lambda: context.index.groups("status", chosen))
    rows = table(
        context,
        _columns(context),
        page.rows,
        key=lambda row: f"{row.run}/{row.rollout_id}",
        href=lambda row: _href(context, row),
        sorted_by=_DEFAULT_SORT,
        label="rollouts",
        nothing=["No rollout is like that. ", clear_link(context)],
    )
    head = heading("Rollouts", _told(context, groups), csv_link(context, "rollouts"))
    below = pager(context, total, what="rollouts")
    return join(head, _numbers(context, groups), _filters(context), rows, below)


def _told(context: Context, groups: Sequence[GroupRow]) -> str:
    runs = ", ".join(context.state.run) if context.state.run else "all runs"
    return f"{count(sum(group.rollouts for group in groups))} of {cut(runs, 120)}"


def _numbers(context: Context, groups: Sequence[GroupRow]) -> Html:
    """What is shown, counted, each number a link to its rollouts; the mean is over what was graded, and says so."""
    by_status = {group.value: group.rollouts for group in groups}
    resolved, unresolved = by_status.get("resolved", 0), by_status.get("unresolved", 0)
    graded = resolved + unresolved
    mean = resolved / graded if graded else None
    over = graded + by_status.get("masked", 0)

    def those(*statuses: str) -> Child:
        number = sum(by_status.get(each, 0) for each in statuses)
        return context.link(count(number), status=statuses, cls="plain") if number else count(number)

    pairs: list[tuple[str, Child]] = [
        ("mean reward", [reward(mean), el("small", f" over {count(graded)} graded")]),
        ("resolved", those("resolved")),
        ("unresolved", those("unresolved")),
        ("masked", [those("masked"), el("small", f" {percent(by_status.get('masked', 0), over)}")]),
        ("stopped", those("stopped")),
        *_going_on(context, sum(by_status.get(each, 0) for each in GOING_ON)),
        ("queued", those("queued")),
    ]
    return el("section", stats(*pairs), cls="card")


def _going_on(context: Context, number: int) -> list[tuple[str, Child]]:
    """Those that go on, and apart from them those that did when their run ended."""
    live: list[str] = []
    ended: list[str] = []
    for row in context.runs:
        if any(row.counts.get(each) for each in GOING_ON):
            (ended if is_over(row) else live).append(row.run)

    def those(runs: Sequence[str], number: int) -> Child:
        linked = number and len(runs) <= _MOST_LINKED
        return context.link(count(number), status=GOING_ON, run=tuple(runs), cls="plain") if linked else count(number)

    if not ended:
        return [("under way", those(context.state.run, number))]
    if not live:
        return [(CUT_OFF, those(context.state.run, number))]
    among = context.state.filter.model_copy(update={"run": tuple(live)})
    groups = context.once(("of live runs", among.model_dump_json()), lambda: context.index.groups("status", among))
    going = sum(group.rollouts for group in groups if group.value in GOING_ON)
    return [("under way", those(live, going)), (CUT_OFF, those(ended, number - going))]


def _filters(context: Context) -> Html:
    fields: list[Child] = [search_field(context, "part of a task's name")]
    for column, label, colours in _CHOICES:
        if column == "run" and len(context.all_runs) == 1:
            continue
        counts = context.counts(column, () if column == "run" else context.state.run)
        options = [(value, _shown(colours, value), number) for value, number in counts]
        if options or getattr(context.state, column):
            fields.append(choice_field(context, column, label, options[:200]))
    fields.append(clear_link(context))
    names = ("text", *(column for column, _label, _colours in _CHOICES))
    return filter_form(context, *fields, names=names)


def _shown(colours: str, value: str) -> Child:
    return pill(colours, value) if colours else cut(value, 60)


def _href(context: Context, row: RolloutRow) -> str:
    """The rollout, with the filters of this page: its neighbours are those of the list."""
    state = context.state.but(view="rollout", run=(row.run,), rollout=row.rollout_id)
    return f"?{state.but(among=among_of(context.state.run, row.run)).query}"


def among_of(runs: Sequence[str], run: str) -> str | None:
    """How the page of a rollout remembers which runs the list was about, if it was not about its own alone."""
    return None if tuple(runs) == (run,) else "/".join(runs) or _ALL_RUNS


def runs_among(among: str, run: str) -> tuple[str, ...]:
    """The runs of that list again."""
    return (run,) if not among else () if among == _ALL_RUNS else tuple(among.split("/"))


def _columns(context: Context) -> list[Column[RolloutRow]]:
    several = len(context.runs) > 1
    return [
        Column("rollout", lambda row: cut(row.rollout_id, 80), sort="rollout_id", cls="grow"),
        *(
            [Column[RolloutRow]("run", lambda row: el("span", cut(row.run, 60), title=row.run), cls="narrow slim")]
            if several
            else []
        ),
        Column("status", partial(_status, context), sort="status"),
        Column("why", _why, sort="mask_kind", cls="narrow slim"),
        Column("tests", _tests, cls="num", hint="required tests that pass: to be fixed, and to stay as they were"),
        Column(
            "budget", lambda row: budget_bar(row.total_s, row.spent_s, row.parked_s), sort="spent_s", cls="bar-cell"
        ),
        Column("spent", lambda row: seconds(row.spent_s), sort="spent_s", cls="num roomy"),
        Column("attempt", lambda row: row.attempt or "", sort="attempt", cls="num"),
        Column("steps", lambda row: count(row.steps), sort="steps", cls="num"),
        Column("tokens", lambda row: count(row.tokens_in + row.tokens_out), sort="tokens_in", cls="num roomy"),
        Column("provider", lambda row: cut(row.provider, 20), sort="provider", cls="roomy"),
        Column("changed", lambda row: ago(row.updated_at), sort="updated_at", cls="num"),
    ]


def _status(context: Context, row: RolloutRow) -> Html:
    stage = row.stage if row.stage in _STAGES and not row.is_final else None
    return join(context.status_of(row), el("small", f" {stage}", cls="dim") if stage else None)


def _why(row: RolloutRow) -> Child:
    if row.mask_kind is not None:
        return pill("mask", row.mask_kind, title=cut(row.reason, 300))
    return el("span", cut(row.reason, 60), cls="dim", title=cut(row.reason, 300)) if row.reason else None


def _tests(row: RolloutRow) -> Child:
    if not (row.fail_to_pass_total or row.pass_to_pass_total):
        return None
    fixed = f"{row.fail_to_pass_passed}/{row.fail_to_pass_total}"
    return el("span", fixed, el("span", f" · {row.pass_to_pass_passed}/{row.pass_to_pass_total}", cls="dim"))


def _csv(context: Context) -> Iterator[Sequence[object]]:
    """All rows of the filter, every column."""
    names = [name for name in RolloutRow.model_fields if name not in ("tags", "flags", "seq")]
    yield names
    sort, is_down = sort_of(context)
    cursor: str | None = None
    while True:
        page = context.index.rollouts(
            context.state.filter, sort=sort, descending=is_down, limit=_CSV_PAGE, cursor=cursor, total=False
        )
        yield from ([getattr(row, name) for name in names] for row in page.rows)
        cursor = page.cursor
        if cursor is None:
            return


VIEW = View("rollouts", "Rollouts", _render, hint="every rollout, filtered and sorted", exports={"rollouts": _csv})
