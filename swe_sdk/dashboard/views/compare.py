"""Two runs beside each other: which tasks flipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swe_sdk.dashboard.components import (
    PAGE_ROWS,
    Column,
    card,
    csv_link,
    empty,
    heading,
    notice,
    offset_of,
    pager,
    stats,
    table,
    tabs,
)
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Child, Html, cut, el, join
from swe_sdk.dashboard.forms import filter_form, search_field
from swe_sdk.dashboard.show import count, pill, tone
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.view import View
from swe_sdk.metrics.comparison import CHANGES, Change, Comparison, TaskPair, pairs_of
from swe_sdk.metrics.passes import Counted
from swe_sdk.store.filters import RolloutFilter

_MOST_TASKS = 1_000_000
_CHANCE = 0.05
_TONES: dict[Change, str] = {"gained": "resolved", "lost": "unresolved", "masked": "masked", "same": "queued"}
_ARROWS: dict[Change, str] = {"gained": "▲", "lost": "▼", "masked": "⊘", "same": "="}
_HINTS: dict[Change, str] = {
    "gained": "passes more often in the second",
    "lost": "passes less often in the second",
    "same": "passes as often in both",
    "masked": "one of the two measured none of its samples",
    "only in a": "the second has no finished sample of it",
    "only in b": "the first has no finished sample of it",
}


def _render(context: Context) -> Html:
    names = [run.run for run in context.all_runs]
    if len(names) < 2:
        why = "Two runs of the same tasks can be compared: which tasks flipped, and whether that is more than chance."
        return empty("Nothing to compare", why, f"swe-sdk run mini --agent noop --path {context.root}/second")
    chosen = [run for run in context.state.run if run in names][:2]
    head = heading("Compare", "which tasks flipped from one run to the other", *_actions(context, chosen))
    if len(chosen) < 2:
        return join(
            head, _pickers(context, names, chosen), empty("Choose two runs", "The second is seen from the first.")
        )
    found = context.once(("comparison", *chosen), lambda: _compare(context, *chosen))
    return join(head, _pickers(context, names, chosen), _numbers(found), _tasks(context, found))


def _compare(context: Context, a: str, b: str) -> Comparison:
    both = [context.index.groups("instance_id", RolloutFilter(run=(run,)), limit=_MOST_TASKS) for run in (a, b)]
    counted = [
        {row.value: Counted(row.resolved, row.unresolved, row.masked) for row in rows if row.value} for rows in both
    ]
    of_a, of_b = ({task: each for task, each in one.items() if sum(each)} for one in counted)
    return Comparison(pairs_of(of_a, of_b), a=a, b=b)


def _actions(context: Context, chosen: Sequence[str]) -> list[Child]:
    if len(chosen) < 2:
        return []
    return [context.link("swap", cls="button ghost", run=(chosen[1], chosen[0])), csv_link(context, "comparison")]


def _pickers(context: Context, names: Sequence[str], chosen: Sequence[str]) -> Html:
    options = [("", "choose a run"), *((name, cut(name, 60)) for name in names)]
    fields = []
    for place, label in enumerate(("from", "to")):
        now = chosen[place] if place < len(chosen) else ""
        rows = [el("option", shown, value=name, selected=name == now) for name, shown in options]
        fields.append(el("label", el("span", label), el("select", rows, name="run", id=f"run-{label}"), cls="one-of"))
    return filter_form(context, *fields, names=("run",), key="two-runs")


def _numbers(found: Comparison) -> Html:
    pairs: list[tuple[str, Child]] = []
    for change in ("gained", "lost", "same", "masked"):
        number = el("span", count(found.counts[change]), cls=f"toned {tone('status', _TONES[change])}")
        pairs.append((change, number))
    pairs.append(("tasks measured in both", count(len(found.measured))))
    return card(None, stats(*pairs), _chance(found))


def _chance(found: Comparison) -> Html:
    """Whether it means something, in words and then in numbers."""
    if not found.measured:
        return notice("Nothing was measured in both: there is nothing to compare.")
    is_more = found.p_value < _CHANCE
    words = "More than chance" if is_more else "It may be chance"
    told = f": {found.difference}; {found.test} p = {found.p_value:.3g}"
    return notice(el("b", words), told, el("span", f" (chance: p of {_CHANCE} or more)", cls="dim"))


def _tasks(context: Context, found: Comparison) -> Html:
    state = context.state
    which = state.get("show", "flips", ("flips", "all", *CHANGES))
    words = state.text.lower()
    among = [pair for pair in found if _is_shown(pair, which) and words in pair.instance_id.lower()]
    names: list[tuple[str, Child]] = [("flips", ["flips", el("small", count(len(found.flips)))])]
    names += [(name, [name, el("small", count(found.counts[name]))]) for name in CHANGES if found.counts[name]]
    names.append(("all", ["all", el("small", count(len(found)))]))
    first = offset_of(context)
    shown = table(
        context,
        _columns(context, found),
        among[first : first + PAGE_ROWS],
        key=lambda pair: pair.instance_id,
        href=lambda pair: f"?{State(view='rollouts', run=(found.a, found.b), instance_id=(pair.instance_id,)).query}",
        label="tasks",
        nothing="No task is like that.",
    )
    search = filter_form(context, search_field(context, "part of a task's name"), names=("text",), key="task-search")
    tools = el("div", tabs(context, names, which, field="show"), search, cls="toolbar")
    return join(tools, shown, pager(context, len(among), what="tasks"))


def _is_shown(pair: TaskPair, which: str) -> bool:
    return which == "all" or pair.change == which or (which == "flips" and pair.change in ("gained", "lost"))


def _columns(context: Context, found: Comparison) -> list[Column[TaskPair]]:
    return [
        Column("task", lambda pair: cut(pair.instance_id, 120), cls="grow"),
        Column("change", lambda pair: _change(pair.change)),
        Column(cut(found.a, 40), lambda pair: _verdict(found.a, pair, pair.verdict_a)),
        Column(cut(found.b, 40), lambda pair: _verdict(found.b, pair, pair.verdict_b)),
    ]


def _change(change: Change) -> Html:
    kind = tone("status", _TONES.get(change))
    sign = el("i", _ARROWS.get(change, "·"), aria_hidden="true")
    return el("span", sign, change, cls=f"pill {kind}", title=_HINTS[change])


def _verdict(run: str, pair: TaskPair, verdict: str) -> Child:
    """A link to the samples behind it."""
    if not verdict:
        return el("span", "none", cls="dim")
    target = State(view="rollouts", run=(run,), instance_id=(pair.instance_id,))
    shown = pill("status", verdict) if verdict in ("resolved", "unresolved", "masked") else verdict
    return el("a", shown, href=f"?{target.query}", title=f"samples of {pair.instance_id} in {run}")


def _csv(context: Context) -> Iterator[Sequence[object]]:
    yield ("instance_id", "change", "rate_a", "rate_b", "a", "b")
    if len(context.state.run) == 2:
        for pair in _compare(context, *context.state.run):
            yield (pair.instance_id, pair.change, pair.rate_a, pair.rate_b, pair.verdict_a, pair.verdict_b)


VIEW = View(
    "compare",
    "Compare",
    _render,
    in_menu=False,
    under="runs",
    hint="which tasks flipped between two runs",
    exports={"comparison": _csv},
)
