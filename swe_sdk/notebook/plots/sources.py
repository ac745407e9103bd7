"""What runs, rollouts and outcomes have to be drawn: the methods that bear these names call here."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from time import time
from typing import TYPE_CHECKING

from swe_sdk.model.outcome import Outcome
from swe_sdk.notebook.plots.budgets import plot_budgets
from swe_sdk.notebook.plots.gantt import LANES, Lane, plot_gantt
from swe_sdk.notebook.plots.masks import plot_masks
from swe_sdk.notebook.plots.outcomes import plot_outcomes
from swe_sdk.notebook.plots.retention import plot_retention
from swe_sdk.notebook.plots.stages import plot_stages
from swe_sdk.store.filters import RolloutFilter
from swe_sdk.store.index import RunIndex
from swe_sdk.store.plotted import MaskCount, StageSpan
from swe_sdk.store.rows import GroupRow, RolloutRow, RunRow
from swe_sdk.store.standing import word_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MEASURED = ("resolved", "unresolved")
_GROUPS = 10_000


def outcomes_of_rollouts(index: RunIndex, chosen: RolloutFilter, ax: Axes | None) -> Axes:
    """Verdicts by family."""
    return plot_outcomes(index.groups("family", chosen, limit=_GROUPS), ax=ax)


def masks_of_rollouts(index: RunIndex, chosen: RolloutFilter, ax: Axes | None) -> Axes:
    """Masks by kind and stage."""
    counts = index.mask_counts(chosen)
    groups = index.groups("status", chosen)
    finished = sum(each.rollouts for each in groups if each.value in (*_MEASURED, "masked"))
    return plot_masks(counts, finished=finished, retried=index.retried_masks(chosen), ax=ax)


def budgets_of_rollouts(index: RunIndex, chosen: RolloutFilter, ax: Axes | None) -> Axes:
    """Budgets."""
    return plot_budgets(index.budget_points(chosen), ax=ax)


def stages_of_rollouts(index: RunIndex, chosen: RolloutFilter, ax: Axes | None) -> Axes:
    """Seconds by stage."""
    return plot_stages(index.stage_points(chosen), ax=ax)  # type: ignore[arg-type]  # its keys are some of all texts


def gantt_of_rollouts(index: RunIndex, chosen: RolloutFilter, ax: Axes | None) -> Axes:
    """Lanes of up to 40 rollouts, or how many were in each stage."""
    spans = index.stage_spans(chosen)
    begun = len({span.rollout for span in spans})
    runs = {run.run: run for run in index.runs()}
    until = _until(run for run in runs.values() if run.run in chosen.run)
    if begun > LANES:
        return plot_gantt(spans, {}, until=until, ax=ax)
    rows = index.rollouts(chosen, sort="started_at", descending=True, limit=max(begun, 1), total=False).rows
    lanes = _lanes(spans, rows, runs)
    return plot_gantt(spans, lanes, until=until, ax=ax)


def _until(runs: Iterable[RunRow]) -> float:
    """Now, while a run goes on; else when the last one ended, as far as that is known."""
    return max((time() if run.alive and run.ended_at is None else run.ended_at or 0.0 for run in runs), default=0.0)


def _lanes(spans: Iterable[StageSpan], rows: Iterable[RolloutRow], runs: Mapping[str, RunRow]) -> dict[int, Lane]:
    """Lanes in the order in which their rollouts began."""
    by_name = {row.rollout_id: word_of(runs[row.run], row.status) for row in rows}
    names = {span.rollout: span.rollout_id for span in spans}
    return {number: Lane(name, by_name.get(name, "unknown")) for number, name in names.items()}


def retention_of_run(index: RunIndex, run: str, ax: Axes | None) -> Axes:
    """Checkpoints and their snapshots."""
    return plot_retention(index.checkpoints(run), index.snapshots(run), ax=ax)


def outcomes_of_outcomes(outcomes: Iterable[Outcome], ax: Axes | None) -> Axes:
    """Verdicts by family."""
    families: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in outcomes:
        families[each.family][each.status] += 1
    groups = [
        GroupRow(value=name, rollouts=n.total(), resolved=n["resolved"], unresolved=n["unresolved"], masked=n["masked"])
        for name, n in families.items()
    ]
    return plot_outcomes(groups, what="outcome", ax=ax)


def masks_of_outcomes(outcomes: Iterable[Outcome], ax: Axes | None) -> Axes:
    """Masks by kind and stage."""
    all_of_them = list(outcomes)
    counted = Counter((each.mask.kind, each.mask.stage) for each in all_of_them if each.mask is not None)
    counts = [MaskCount(kind, stage, number) for (kind, stage), number in counted.items()]
    return plot_masks(counts, finished=len(all_of_them), what="outcome", ax=ax)
