"""Two runs on the same tasks, task by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from swe_sdk.errors import UnknownTask
from swe_sdk.metrics.frames import COMPARISON
from swe_sdk.metrics.intervals import Interval
from swe_sdk.metrics.paired import Pair, PairedDifference, exact_mcnemar, paired_difference
from swe_sdk.metrics.passes import Counted
from swe_sdk.model.columns import frame_of
from swe_sdk.model.record import Record
from swe_sdk.shown import Shown, from_notebook, one_line

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Change = Literal["gained", "lost", "same", "masked", "only in a", "only in b"]
CHANGES: tuple[Change, ...] = get_args(Change)
NOTHING = Counted(0, 0, 0)


class TaskPair(Record):
    """One task in both runs: how many samples were resolved, unresolved and masked in each."""

    instance_id: str
    family: str = ""
    a: Counted
    b: Counted

    @property
    def rate_a(self) -> float | None:
        """The part of its measured samples that is resolved in a; None where none was measured."""
        return _rate(self.a)

    @property
    def rate_b(self) -> float | None:
        """The same in b."""
        return _rate(self.b)

    @property
    def change(self) -> Change:
        """What became of it from a to b.

        ``gained`` and ``lost``: it passes more or less often. ``masked``: one of the two has only masked samples, so
        nothing can be said. ``only in a``, ``only in b``: the other has no finished sample.
        """
        if not sum(self.a) or not sum(self.b):
            return "only in a" if sum(self.a) else "only in b"
        if self.rate_a is None or self.rate_b is None:
            return "masked"
        return "same" if self.rate_a == self.rate_b else "gained" if self.rate_b > self.rate_a else "lost"

    @property
    def verdict_a(self) -> str:
        """``resolved``, ``unresolved``, ``masked``; of several samples ``3/4 resolved``; empty where there is none."""
        return _verdict(self.a)

    @property
    def verdict_b(self) -> str:
        """The same in b."""
        return _verdict(self.b)


class Comparison(Shown, Sequence[TaskPair]):
    """Run b beside run a, task by task, in the order of a.

    ``gained`` and ``lost`` are the flips; ``p_value`` is that of McNemar's exact test over tasks that both have
    measured, ``difference`` that of pass@1, with its interval over the same tasks. Masked ones are in neither: they are
    counted in ``masked``. ``comparison["id"]`` is one task.
    """

    def __init__(self, pairs: Sequence[TaskPair], *, a: str = "a", b: str = "b") -> None:
        self._pairs = tuple(pairs)
        self._by_id = {pair.instance_id: pair for pair in self._pairs}
        self.a, self.b = a, b
        """What the two are called."""

    @overload
    def __getitem__(self, key: int | str) -> TaskPair: ...
    @overload
    def __getitem__(self, key: slice) -> Comparison: ...
    def __getitem__(self, key: int | str | slice) -> TaskPair | Comparison:
        """By position or by instance id (``UnknownTask`` where there is none); a slice gives a Comparison."""
        if isinstance(key, str):
            if key not in self._by_id:
                raise UnknownTask(key, tuple(self._by_id))
            return self._by_id[key]
        return Comparison(self._pairs[key], a=self.a, b=self.b) if isinstance(key, slice) else self._pairs[key]

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[TaskPair]:
        return iter(self._pairs)

    def __contains__(self, item: object) -> bool:
        """Whether there is a task of that id, or that very pair."""
        return item in self._by_id if isinstance(item, str) else item in self._pairs

    # -- what differs ------------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> dict[Change, int]:
        """How many tasks there are of each change."""
        counted = Counter(pair.change for pair in self._pairs)
        return {change: counted[change] for change in CHANGES}

    def _with(self, *changes: Change) -> list[TaskPair]:
        return [pair for pair in self._pairs if pair.change in changes]

    @property
    def gained(self) -> list[TaskPair]:
        """Tasks that pass more often in b."""
        return self._with("gained")

    @property
    def lost(self) -> list[TaskPair]:
        """Tasks that pass less often in b."""
        return self._with("lost")

    @property
    def flips(self) -> list[TaskPair]:
        """Both, in the order of the tasks."""
        return self._with("gained", "lost")

    @property
    def masked(self) -> list[TaskPair]:
        """Tasks that one of the two, or both, could not measure."""
        return self._with("masked")

    @property
    def measured(self) -> list[TaskPair]:
        """Tasks that both have measured: what the test and the difference are about."""
        return self._with("gained", "lost", "same")

    @property
    def p_value(self) -> float:
        """Of McNemar's exact test (two-sided), or of the sign test: see :attr:`test`."""
        return exact_mcnemar(self.counts["gained"], self.counts["lost"])

    @property
    def test(self) -> str:
        """What :attr:`p_value` is of: McNemar's exact test, or with several samples a task the sign test over rates."""
        samples = (count.measured for pair in self.measured for count in (pair.a, pair.b))
        return "exact sign test" if any(count > 1 for count in samples) else "exact McNemar"

    @cached_property
    def difference(self) -> PairedDifference:
        """By how much pass@1 of b is higher, over tasks that both have measured."""
        return paired_difference([Pair(pair.rate_a or 0.0, pair.rate_b or 0.0) for pair in self.measured])

    @property
    def if_masks_were_known(self) -> Interval | None:
        """How far masks could move the difference, over tasks that both have finished; None where nothing is masked.

        The lower end counts masked samples of a as resolved and those of b as not, the upper end the other way round.
        """
        finished = self._with("gained", "lost", "same", "masked")
        if not any(pair.a.masked or pair.b.masked for pair in finished):
            return None
        low = [pair.b.resolved / sum(pair.b) - (pair.a.resolved + pair.a.masked) / sum(pair.a) for pair in finished]
        high = [(pair.b.resolved + pair.b.masked) / sum(pair.b) - pair.a.resolved / sum(pair.a) for pair in finished]
        return Interval(sum(low) / len(low), sum(high) / len(high))

    # -- shown and taken away ----------------------------------------------------------------------------------------

    @property
    def summary(self) -> str:
        """Two lines: counts, and what can be concluded; a third where masks could move that."""
        n = self.counts
        apart = "".join(f", {n[kind]} {kind}" for kind in CHANGES[3:] if n[kind])
        told = f"{n['gained']} gained, {n['lost']} lost, {n['same']} the same of {len(self.measured)} measured in both"
        moved = self.if_masks_were_known
        masks = "" if moved is None else f"\nmasks could move the difference to {moved.low:+.3f} or {moved.high:+.3f}"
        return f"{told}{apart}\n{self.difference}; {self.test} p = {self.p_value:.3g}{masks}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the numbers, and a row a task."""
        return {
            "a": self.a,
            "b": self.b,
            "counts": dict(self.counts),
            "test": self.test,
            "p_value": self.p_value,
            "difference": self.difference.model_dump(mode="json"),
            "if_masks_were_known": None if self.if_masks_were_known is None else list(self.if_masks_were_known),
            "tasks": [_row(pair) for pair in self._pairs],
        }

    def to_frame(self) -> pd.DataFrame:
        """A row a task, indexed by instance id; rates are over measured samples, and missing where there are none."""
        return frame_of(COMPARISON, map(_row, self._pairs), index="instance_id")

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Tasks that pass more or less often, with the test; masked ones are counted apart."""
        drawn: Axes = from_notebook("plots.comparison").plot_comparison(self, ax=ax)
        return drawn

    def __repr__(self) -> str:
        return f"<Comparison {one_line(self.b)} beside {one_line(self.a)}: {one_line(self.summary, 300)}>"


def pairs_of(
    a: Mapping[str, Counted], b: Mapping[str, Counted], families: Mapping[str, str] | None = None
) -> list[TaskPair]:
    """The tasks of both that have a finished sample, those of ``a`` first."""
    known = families or {}
    names = dict.fromkeys((*a, *b))
    pairs = (
        TaskPair(instance_id=name, family=known.get(name, ""), a=a.get(name, NOTHING), b=b.get(name, NOTHING))
        for name in names
    )
    return [pair for pair in pairs if sum(pair.a) or sum(pair.b)]


def _rate(counted: Counted) -> float | None:
    return counted.resolved / counted.measured if counted.measured else None


def _verdict(counted: Counted) -> str:
    if sum(counted) <= 1:
        return next((word for word, count in zip(counted._fields, counted, strict=True) if count), "")
    return f"{counted.resolved}/{counted.measured} resolved" if counted.measured else "masked"


def _row(pair: TaskPair) -> dict[str, Any]:
    rates = (pair.rate_a, pair.rate_b)
    return {
        "instance_id": pair.instance_id,
        "family": pair.family,
        "change": pair.change,
        "verdict_a": pair.verdict_a,
        "verdict_b": pair.verdict_b,
        "rate_a": rates[0],
        "rate_b": rates[1],
        "difference": None if rates[0] is None or rates[1] is None else rates[1] - rates[0],
        "measured_a": pair.a.measured,
        "measured_b": pair.b.measured,
        "masked_a": pair.a.masked,
        "masked_b": pair.b.masked,
    }
