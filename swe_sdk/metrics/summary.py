"""What a run came to, in numbers that keep masks apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from swe_sdk.metrics.facts import RolloutFacts
from swe_sdk.metrics.frames import METRICS
from swe_sdk.metrics.passes import Counted, PassAtK, pass_at_k
from swe_sdk.model.columns import frame_of
from swe_sdk.model.record import Record
from swe_sdk.store.rows import StageSeconds

if TYPE_CHECKING:
    import pandas as pd


class Spread(Record):
    """How a quantity is spread over the rollouts that have it."""

    count: int
    total: float
    mean: float
    median: float
    p90: float
    max: float


class BudgetUse(Record):
    """What became of the budgets, over finished rollouts; seconds. ``used`` is spent of total, from 0 to 1."""

    spent_s: float
    parked_s: float
    used: Spread | None
    """None where no rollout had a limit."""
    exhausted: int
    """Rollouts with nothing left."""


class RunMetrics(Record):
    """The numbers of a run.

    ``mean_reward`` is over measured rollouts alone (None without any); masked ones stand in ``masked_by_kind`` and
    ``masked_rate``, which are of all finished rollouts. ``infra_failed_rate`` leaves out masks that somebody's stop or
    the agent's own time has caused. ``pass_at`` has an estimate for k = 1, and for further k that the samples allow.
    """

    rollouts: int
    finished: int
    unfinished: int
    resolved: int
    unresolved: int
    masked: int
    masked_by_kind: dict[str, int]
    masked_by_stage: dict[str, int]
    mean_reward: float | None
    masked_rate: float | None
    infra_failed_rate: float | None
    pass_at: tuple[PassAtK, ...]
    budget: BudgetUse
    stages: tuple[StageSeconds, ...] = ()
    """Where the time went, over all attempts."""
    retried: int
    """Rollouts that took more than one attempt."""

    @property
    def pass_at_1(self) -> PassAtK:
        """The first of :attr:`pass_at`."""
        return self.pass_at[0]

    def to_frame(self) -> pd.DataFrame:
        """A row a number, by its name: counts, rates, pass@k with its interval, seconds of budgets and stages."""
        return frame_of(METRICS, _rows(self), index="metric")

    @property
    def summary(self) -> str:
        """One line that never shows a mean without its masks."""
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.masked_by_kind.items())
        masked = f"{self.masked} masked" + (f" ({kinds})" if kinds else "")
        counts = f"{self.resolved} resolved, {self.unresolved} unresolved, {masked} of {self.finished} finished"
        left = f"; {self.unfinished} unfinished" if self.unfinished else ""
        mean = "" if self.mean_reward is None else f"; mean reward {self.mean_reward:.3f} over what was measured"
        return f"{counts}{left}{mean}"


def _rows(metrics: RunMetrics) -> Iterator[dict[str, Any]]:
    finished = metrics.finished
    for name in ("rollouts", "finished", "unfinished", "resolved", "unresolved", "masked", "retried"):
        yield {"metric": name, "value": getattr(metrics, name), "count": metrics.rollouts, "unit": "rollouts"}
    for kind, count in metrics.masked_by_kind.items():
        yield {"metric": f"masked: {kind}", "value": count, "count": finished, "unit": "rollouts"}
    for stage, count in metrics.masked_by_stage.items():
        yield {"metric": f"masked in {stage}", "value": count, "count": finished, "unit": "rollouts"}
    yield {"metric": "mean_reward", "value": metrics.mean_reward, "count": finished - metrics.masked, "unit": "part"}
    for name in ("masked_rate", "infra_failed_rate"):
        yield {"metric": name, "value": getattr(metrics, name), "count": finished, "unit": "part"}
    for each in metrics.pass_at:
        bounds = {} if each.value is None else {"low": each.low, "high": each.high}
        yield {"metric": f"pass@{each.k}", "value": each.value, "count": each.tasks, "unit": "part", **bounds}
    for name in ("spent_s", "parked_s"):
        yield {"metric": name, "value": getattr(metrics.budget, name), "count": finished, "unit": "s"}
    for stage_s in metrics.stages:
        yield {"metric": f"stage: {stage_s.stage}", "value": stage_s.total_s, "count": stage_s.count, "unit": "s"}


def run_metrics(facts: Iterable[RolloutFacts], stages: Iterable[StageSeconds] = ()) -> RunMetrics:
    """The metrics of the rollouts of one run; ``stages`` as the store has summed them up."""
    rollouts = list(facts)
    finished = [each for each in rollouts if each.status != "unfinished"]
    by_status = Counter(each.status for each in rollouts)
    masked = [each for each in finished if each.status == "masked"]
    measured = by_status["resolved"] + by_status["unresolved"]
    return RunMetrics(
        rollouts=len(rollouts),
        finished=len(finished),
        unfinished=by_status["unfinished"],
        resolved=by_status["resolved"],
        unresolved=by_status["unresolved"],
        masked=len(masked),
        masked_by_kind=_counts(each.mask_kind for each in masked),
        masked_by_stage=_counts(each.mask_stage for each in masked),
        mean_reward=_part(by_status["resolved"], measured),
        masked_rate=_part(len(masked), len(finished)),
        infra_failed_rate=_part(sum(each.is_infrastructure_failure for each in masked), len(finished)),
        pass_at=_passes(finished),
        budget=_budget_use(finished),
        stages=tuple(stages),
        retried=sum(each.attempts > 1 for each in rollouts),
    )


def counted_by_task(facts: Iterable[RolloutFacts]) -> dict[str, Counted]:
    """How the finished rollouts of each task ended."""
    found: dict[str, Counter[str]] = {}
    for each in facts:
        found.setdefault(each.instance_id, Counter())[each.status] += 1
    return {name: Counted(n["resolved"], n["unresolved"], n["masked"]) for name, n in found.items()}


def spread_of(values: Sequence[float]) -> Spread | None:
    """Count, total, mean, median, 90th percentile (nearest rank) and maximum; None for no values."""
    if not values:
        return None
    ranked, count = sorted(values), len(values)
    middle = (ranked[(count - 1) // 2] + ranked[count // 2]) / 2
    p90 = ranked[-(-9 * count // 10) - 1]
    total = sum(ranked)
    return Spread(count=count, total=total, mean=total / count, median=middle, p90=p90, max=ranked[-1])


def _passes(finished: Sequence[RolloutFacts]) -> tuple[PassAtK, ...]:
    """k = 1, then powers of two and the largest number of samples that any task has."""
    tasks = counted_by_task(finished)
    most = max((task.measured for task in tasks.values()), default=0)
    wanted = {1, most, *(1 << power for power in range(most.bit_length()))} - {0}
    return tuple(pass_at_k(tasks, k) for k in sorted(wanted) if k <= max(1, most))


def _budget_use(finished: Sequence[RolloutFacts]) -> BudgetUse:
    budgets = [each.budget for each in finished]
    used = [budget.spent_s / budget.total_s for budget in budgets if budget.total_s]
    return BudgetUse(
        spent_s=sum(budget.spent_s for budget in budgets),
        parked_s=sum(budget.parked_s for budget in budgets),
        used=spread_of([min(1.0, part) for part in used]),
        exhausted=sum(budget.is_spent for budget in budgets),
    )


def _counts(names: Iterable[str | None]) -> dict[str, int]:
    counted = Counter(name or "unknown" for name in names)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def _part(some: int, of: int) -> float | None:
    return some / of if of else None
