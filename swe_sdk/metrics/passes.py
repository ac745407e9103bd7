"""pass@k from several samples a task, without bias, and with what could not be measured named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import comb
from typing import Literal, NamedTuple

from swe_sdk.metrics.intervals import bootstrap, wilson
from swe_sdk.model.record import Record

Method = Literal["wilson", "bootstrap over tasks"]


class Counted(NamedTuple):
    """What came of the samples of one task."""

    resolved: int
    unresolved: int
    masked: int

    @property
    def measured(self) -> int:
        """How many of them are measurements."""
        return self.resolved + self.unresolved


class PassAtK(Record):
    """An estimate of the chance that one of ``k`` samples resolves a task, over the tasks that were measured.

    ``value`` is None where no task has ``k`` measured samples. ``tasks`` were measured, ``left_out`` had too few
    measured samples, and are in no mean. ``low`` and ``high`` bound it with 95 % confidence, by ``method``.
    ``if_masked_failed`` and ``if_masked_resolved`` (for ``k`` = 1) say how far the masks could move it: the same mean
    over all samples, with each masked one counted as unresolved or as resolved.
    """

    k: int
    value: float | None
    low: float
    high: float
    method: Method
    tasks: int
    left_out: int
    if_masked_failed: float | None = None
    if_masked_resolved: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"pass@{self.k} not measured ({self.left_out} tasks left out)"
        out = f", {self.left_out} left out" if self.left_out else ""
        bounds = f"[{self.low:.3f}, {self.high:.3f}], 95 %, {self.method}"
        return f"pass@{self.k} {self.value:.3f} {bounds}, {self.tasks} tasks{out}"


def pass_at_k(tasks: Mapping[str, Counted], k: int) -> PassAtK:
    """The unbiased estimate ``1 - C(n - c, k) / C(n, k)`` of each task (``c`` resolved of ``n`` measured), averaged.

    The interval is Wilson's, over tasks, where each has just one measured sample, or where all tasks came to the same
    (a bootstrap of equal values would be a point, and claim what nobody knows); else tasks are resampled.
    """
    counted = [each for each in tasks.values() if each.measured >= k]
    values = [_of_one(each, k) for each in counted]
    by_wilson = len(set(values)) <= 1 or all(each.measured == 1 for each in counted)
    interval = wilson(sum(values), len(values)) if by_wilson else bootstrap(values)
    failed, resolved = _if_masks_were_known(tasks.values()) if k == 1 else (None, None)
    return PassAtK(
        k=k,
        value=_mean(values),
        low=interval.low,
        high=interval.high,
        method="wilson" if by_wilson else "bootstrap over tasks",
        tasks=len(counted),
        left_out=len(tasks) - len(counted),
        if_masked_failed=failed,
        if_masked_resolved=resolved,
    )


def _of_one(task: Counted, k: int) -> float:
    return 1.0 - comb(task.unresolved, k) / comb(task.measured, k)


def _if_masks_were_known(tasks: Iterable[Counted]) -> tuple[float | None, float | None]:
    finished = [task for task in tasks if sum(task)]
    failed = _mean([task.resolved / sum(task) for task in finished])
    resolved = _mean([(task.resolved + task.masked) / sum(task) for task in finished])
    return failed, resolved


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
