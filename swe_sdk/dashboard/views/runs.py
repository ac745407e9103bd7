"""Runs: how far they are and what came of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from swe_sdk.dashboard.components import Column, amounts, bar, card, csv_link, empty, heading, notice, stats, table
from swe_sdk.dashboard.context import Context
from swe_sdk.dashboard.escape import Html, cut, el, join
from swe_sdk.dashboard.forms import filter_form, one_of_field, search_field
from swe_sdk.dashboard.parts.parked import parked_mark
from swe_sdk.dashboard.run_state import RunState, eta, finished, planned, state_of
from swe_sdk.dashboard.show import ago, colour_of, count, percent, reward, tone
from swe_sdk.dashboard.state import State
from swe_sdk.dashboard.view import View
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.rows import RunRow
from swe_sdk.store.standing import GOING_ON, word_of

_ENDS = ("resolved", "unresolved", "masked", "stopped")
_STATES = (("", "all"), ("going", "going"), ("over", "over"), ("killed", "killed"))
_MOST_KINDS = 1


@dataclass(frozen=True)
class _Line:
    """A run as the table shows it."""

    run: RunRow
    state: RunState
    masks: tuple[tuple[str, int], ...]
    """Masked rollouts by kind, the most frequent first."""
    eta: float | None


def _render(context: Context) -> Html:
    runs = context.all_runs
    if not runs:
        why = f"{context.root} has no run directories yet. They appear here by themselves."
        return empty("No runs yet", why, f"swe-sdk run mini --agent gold --budget 30m --path {context.root}/first")
    lines = _sorted(context, [line for line in _lines(context, runs) if _is_wanted(context, line)])
    pick = context.state.get("pick")
    chosen = (
        notice("Comparing with ", el("b", cut(pick, 60)), ": choose the other run. ", _unpick(context))
        if pick
        else None
    )
    form = filter_form(
        context,
        search_field(context, "run, agent, model, dataset"),
        one_of_field(context, "is", "state", _STATES),
        names=("text", "is"),
    )
    body = table(
        context,
        _columns(context),
        lines,
        key=lambda line: f"run-{line.run.run}",
        href=lambda line: f"?{State(view='rollouts', run=(line.run.run,)).query}",
        sorted_by="-started",
        label="runs",
        nothing="no run is like that",
    )
    head = heading("Runs", f"below {context.root}", csv_link(context, "runs"))
    return join(head, card(None, _totals(runs)), form, chosen, body)


def _totals(runs: Sequence[RunRow]) -> Html:
    ends = {status: sum(row.counts.get(status, 0) for row in runs) for status in _ENDS}
    graded, rollouts = ends["resolved"] + ends["unresolved"], sum(planned(row) for row in runs)
    done = sum(ends.values())
    rate = el("small", f" {percent(ends['resolved'], graded)} of what was measured")
    return stats(
        ("runs", [count(len(runs)), el("small", f" {sum(state_of(row).is_going for row in runs)} going")]),
        ("rollouts over", [count(done), el("small", f" of {count(rollouts)}")]),
        ("resolved", [count(ends["resolved"]), rate]),
        ("unresolved", count(ends["unresolved"])),
        ("masked", [count(ends["masked"]), el("small", f" {percent(ends['masked'], done)}, in no mean")]),
    )


def _lines(context: Context, runs: Sequence[RunRow]) -> list[_Line]:
    kinds = context.once("masks by run", lambda: _mask_kinds(context))
    return [_Line(run, state_of(run), tuple(kinds.get(run.run, ())), eta(run, context.now)) for run in runs]


def _mask_kinds(context: Context) -> dict[str, list[tuple[str, int]]]:
    found: dict[str, dict[str, int]] = {}
    for cell in context.index.mask_cells(RolloutFilter(status=("masked",))):
        if cell.is_final:
            kinds = found.setdefault(cell.run, {})
            kinds[cell.kind] = kinds.get(cell.kind, 0) + cell.attempts
    return {run: sorted(kinds.items(), key=lambda kind: -kind[1]) for run, kinds in found.items()}


def _is_wanted(context: Context, line: _Line) -> bool:
    wanted = context.state.get("is", among=[name for name, _label in _STATES])
    is_in_state = {"going": line.state.is_going, "over": line.state.is_over, "killed": line.state.word == "killed"}
    if not is_in_state.get(wanted, True):
        return False
    run = line.run
    words = " ".join((run.run, run.name, run.agent, run.model, run.dataset)).lower()
    return context.state.text.lower() in words


_SORTS: dict[str, Callable[[_Line], object]] = {
    "run": lambda line: line.run.run,
    "started": lambda line: line.run.started_at or 0.0,
    "reward": lambda line: -1.0 if line.run.reward_mean is None else line.run.reward_mean,
    "masked": lambda line: line.run.counts.get("masked", 0),
    "rollouts": lambda line: line.run.rollouts,
    "agent": lambda line: (line.run.agent, line.run.model),
}


def _sorted(context: Context, lines: list[_Line]) -> list[_Line]:
    column, is_down = context.state.sorted_by
    if column not in _SORTS:
        column, is_down = "started", True
    return sorted(lines, key=_SORTS[column], reverse=is_down)  # type: ignore[arg-type]  # of one column, all of one type


def _columns(context: Context) -> list[Column[_Line]]:
    return [
        Column("run", _name, sort="run", cls="narrow"),
        Column("state", lambda line: line.state.pill),
        Column("agent", _agent, sort="agent", cls="narrow"),
        Column("progress", _progress, cls="bar-cell grow"),
        Column("over", _done, sort="rollouts", cls="num"),
        Column(
            "reward", _reward, sort="reward", cls="num", hint="mean over what was measured: masked ones are left out"
        ),
        Column("masked", _masks, sort="masked", hint="why, and what to do about it"),
        Column("started", lambda line: ago(line.run.started_at), sort="started"),
        Column("", lambda line: _compare(context, line.run)),
    ]


def _name(line: _Line) -> Html:
    return el("span", cut(line.run.name or line.run.run, 60), title=line.run.run)


def _agent(line: _Line) -> Html:
    agent, model = cut(line.run.agent or line.run.source, 40), cut(line.run.model, 40)
    return el("span", agent, el("span", f" {model}", cls="dim"), title=f"{agent} {model}")


def _progress(line: _Line) -> Html:
    parts = [("status", colour_of(word), float(number)) for word, number in _in_order(line.run)]
    told = ", ".join(f"{number} {word}" for word, number in _in_order(line.run))
    left = el("small", "ends ", ago(line.eta), cls="dim") if line.eta is not None else None
    stands = parked_mark([line.run])
    return el(
        "span",
        bar(parts, total=float(planned(line.run)), label=told),
        el("small", stands) if stands else None,
        left,
        cls="stacked",
    )


def _in_order(run: RunRow) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for status in (*_ENDS, *GOING_ON):
        counts[word_of(run, status)] += run.counts.get(status, 0)
    return [(word, number) for word, number in counts.items() if number]


def _done(line: _Line) -> str:
    return f"{count(finished(line.run))} / {count(planned(line.run))}"


def _reward(line: _Line) -> Html:
    return el("span", reward(line.run.reward_mean), title=f"over {line.run.graded:,} graded rollouts")


def _masks(line: _Line) -> Html | None:
    """The most frequent kind, and how many there are of the others, which are named where it is pointed at."""
    shown = amounts((kind.replace("_", " "), number, tone("mask", kind)) for kind, number in line.masks[:_MOST_KINDS])
    others = sum(number for _kind, number in line.masks[_MOST_KINDS:])
    told = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in line.masks)
    more = el("small", f" +{count(others)}", cls="dim") if others else None
    target = State(view="masks", run=(line.run.run,))
    return el("a", shown, more, href=f"?{target.query}", title=told) if line.masks else None


def _compare(context: Context, run: RunRow) -> Html:
    pick = context.state.get("pick")
    if not pick:
        return context.link("compare", cls="quiet", title="choose the other run then", pick=run.run)
    if pick == run.run:
        return el("span", "chosen", cls="dim")
    return el("a", "with this", href=f"?{State(view='compare', run=(pick, run.run)).query}", cls="button main")


def _unpick(context: Context) -> Html:
    return context.link("cancel", pick=None)


def _csv(context: Context) -> Iterator[Sequence[object]]:
    yield (
        "run",
        "agent",
        "model",
        "dataset",
        "state",
        "rollouts",
        *_ENDS,
        "reward_mean",
        "graded",
        "started_at",
        "ended_at",
    )
    for run in context.all_runs:
        ends = (run.counts.get(status, 0) for status in _ENDS)
        facts = (run.run, run.agent, run.model, run.dataset, state_of(run).word, run.rollouts, *ends)
        yield (*facts, run.reward_mean, run.graded, run.started_at, run.ended_at)


VIEW = View("runs", "Runs", _render, hint="how far the runs are, and what came of them", exports={"runs": _csv})
