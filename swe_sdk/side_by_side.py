"""Two runs side by side, from wherever they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from anyio import to_thread

from swe_sdk.errors import InputError
from swe_sdk.grading.outcomes import Outcomes
from swe_sdk.metrics.comparison import Comparison, pairs_of
from swe_sdk.metrics.passes import Counted
from swe_sdk.model.outcome import Outcome
from swe_sdk.runs.run import Run
from swe_sdk.store.layout import is_run
from swe_sdk.store.results import read_outcomes

Comparable: TypeAlias = Run | Outcomes | Path | str
"""A run or its directory, outcomes, a results directory, or a file with one Outcome a line."""


class _Side(NamedTuple):
    name: str
    tasks: dict[str, Counted]
    families: dict[str, str]


async def compare(run_a: Comparable, run_b: Comparable) -> Comparison:
    """What became of each task in ``run_b`` beside ``run_a``: flips, McNemar's exact test, the difference of pass@1.

    Each is a run or its directory, the :class:`Outcomes` of ``grade_many``, a results directory, or a file with one
    Outcome a line (``swe-sdk grade --output``). Tasks are matched by instance id. Several samples of a task make a pass
    rate. Masked samples are in no rate, and a task that one of the two could not measure is counted apart. Raises
    ``InputError`` where there is nothing to compare.
    """
    sides = [await to_thread.run_sync(partial(_side, each)) for each in (run_a, run_b)]
    (a, b) = sides
    pairs = pairs_of(a.tasks, b.tasks, {**b.families, **a.families})
    names = (a.name, b.name) if a.name != b.name else (f"{a.name} (a)", f"{b.name} (b)")
    return Comparison(pairs, a=names[0], b=names[1])


def _side(given: Comparable) -> _Side:
    if isinstance(given, Run):
        return _of_run(given)
    if isinstance(given, Outcomes):
        return _of_outcomes(given.path.name if given.path is not None else "outcomes", given)
    remedy = "give a run, its directory, what grade_many returned, a results directory, or a .jsonl file of outcomes"
    if not isinstance(given, str | Path):
        raise InputError(f"{given!r:.200} cannot be compared", remedy=remedy)
    path = Path(given)
    if not path.exists():
        raise InputError(f"there is no run and no file of outcomes at {path}", remedy=remedy)
    if is_run(path):
        with Run(path) as run:
            return _of_run(run)
    outcomes = read_outcomes(path)
    if not outcomes:
        raise InputError(f"there are no outcomes in {path}", remedy=remedy)
    return _of_outcomes(path.name, outcomes)


def _of_run(run: Run) -> _Side:
    """Rollouts that were stopped, or are not over, are no samples."""
    counts = run.rollouts.by_task()
    tasks = {each.instance_id: Counted(each.resolved, each.unresolved, each.masked) for each in counts}
    return _Side(run.path.name, tasks, {each.instance_id: each.family for each in counts})


def _of_outcomes(name: str, outcomes: Iterable[Outcome]) -> _Side:
    counts: defaultdict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(Counted._fields, 0))
    families = {}
    for each in outcomes:
        families[each.instance_id] = each.family
        counts[each.instance_id][each.status] += 1
    return _Side(name, {task: Counted(**count) for task, count in counts.items()}, families)
