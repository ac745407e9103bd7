"""The rollouts of a run: a mapping by id that stays on disk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, TypeVar, get_args, overload

from pydantic import ValidationError

from swe_sdk.errors import InputError, UnknownRollout, did_you_mean
from swe_sdk.model.columns import frame_of
from swe_sdk.model.policy import FailureKind, Stage
from swe_sdk.recipes.registry import recipe_names
from swe_sdk.runs.frames import ROLLOUTS
from swe_sdk.runs.rollout import Rollout
from swe_sdk.sandbox.registry import provider_names
from swe_sdk.shown import Shown, from_notebook
from swe_sdk.store.filters import GroupColumn, RolloutFilter, SortColumn
from swe_sdk.store.index import RunIndex
from swe_sdk.store.plotted import TaskCount
from swe_sdk.store.rows import RolloutRow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

T = TypeVar("T")
_PAGE = 1000


class Rollouts(Shown, Mapping[str, Rollout]):
    """Rollouts by id, in the order in which they were queued; read page by page, however many there are.

    ``rollouts["mini__calc-1.0"]`` (an instance id alone will do where it has one sample), ``rollouts.where(...)`` for
    some of them, ``rollouts.page(2)`` for a table.
    """

    def __init__(self, index: RunIndex, chosen: RolloutFilter) -> None:
        self._index = index
        self._chosen = chosen

    def where(self, **conditions: Any) -> Rollouts:
        """Those for which all conditions hold; a tuple or list means any of its values.

        Conditions are the fields of :class:`~swe_sdk.store.filters.RolloutFilter`: ``status``, ``mask_kind``,
        ``instance_id``, ``text`` (a part of the instance id), ``final``, ... Raises ``InputError``, also for a kind or
        stage of masks, a family or a provider that neither the SDK nor this run knows: nothing would be found.
        """
        for key in conditions.keys() - RolloutFilter.model_fields.keys():
            raise InputError(f"unknown condition {key!r}", remedy=did_you_mean(key, RolloutFilter.model_fields))
        told = {key: _any_of(key, value) for key, value in conditions.items()}
        try:
            chosen = RolloutFilter.model_validate({**self._chosen.model_dump(), **told})
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"{first['loc'][0]}={conditions.get(str(first['loc'][0]))!r}: {first['msg']}") from None
        for column, known in vocabularies().items():
            if column in told:
                self._require_known(column, getattr(chosen, column), known)
        return Rollouts(self._index, chosen)

    def _require_known(self, column: GroupColumn, values: tuple[str, ...], known: Collection[str]) -> None:
        """Imported runs have words of their own; those that occur are as good as ours."""
        if all(value.partition("@")[0] in known for value in values):  # a family may name its rules: "swe-bench@nested"
            return
        here = RolloutFilter(run=self._chosen.run)
        words = {*known, *(group.value for group in self._index.groups(column, here) if group.value)}
        for value in values:
            if value not in words:
                raise InputError(f"unknown {column} {value!r}", remedy=f"known: {', '.join(sorted(words))}")

    def page(
        self, number: int = 1, size: int = 50, *, sort: SortColumn = "queued_at", descending: bool = False
    ) -> list[Rollout]:
        """Page ``number`` (from 1) of ``size`` rollouts, sorted by a column of their rows. Raises ``InputError``."""
        if number < 1 or size < 1:
            raise InputError(f"page {number} of {size} rollouts each", remedy="both count from 1")
        offset = (number - 1) * size
        page = self._index.rollouts(
            self._chosen, sort=sort, descending=descending, offset=offset, limit=size, total=False
        )
        return [Rollout(self._index, row) for row in page.rows]

    def rows(self) -> Iterator[RolloutRow]:
        """The numbers of all of them."""
        cursor: str | None = None
        while True:
            page = self._index.rollouts(self._chosen, limit=_PAGE, cursor=cursor, total=False)
            yield from page.rows
            cursor = page.cursor
            if cursor is None:
                return

    def __getitem__(self, key: str) -> Rollout:
        """By rollout id, or by the instance id of its only sample; ``UnknownRollout`` names what is near."""
        if not isinstance(key, str):
            raise InputError(f"rollouts go by their ids, not by {key!r}", remedy="list(run.rollouts) has the ids")
        run = self._chosen.run[0] if self._chosen.run else None
        try:
            row = self._index.rollout(key, run=run)
        except UnknownRollout:
            samples = self._samples_of(key)
            if not samples:
                raise
            if len(samples) > 1:
                raise UnknownRollout(key, [each.rollout_id for each in samples]) from None
            row = samples[0]
        return Rollout(self._index, row)

    def _samples_of(self, instance_id: str) -> tuple[RolloutRow, ...]:
        chosen = self._chosen.model_copy(update={"instance_id": (instance_id,)})
        return self._index.rollouts(chosen, limit=20, total=False).rows

    def __iter__(self) -> Iterator[str]:
        return (row.rollout_id for row in self.rows())

    def __len__(self) -> int:
        return self._index.count(self._chosen)

    def __contains__(self, key: object) -> bool:
        try:
            return isinstance(key, str) and self[key] is not None
        except UnknownRollout:
            return False

    @overload
    def get(self, key: str, /) -> Rollout | None: ...
    @overload
    def get(self, key: str, /, default: T) -> Rollout | T: ...
    def get(self, key: str, /, default: Any = None) -> Any:
        """As ``rollouts[key]``, or ``default`` where there is none."""
        try:
            return self[key]
        except UnknownRollout:
            return default

    def values(self) -> ValuesView[Rollout]:
        """All of them, read page by page."""
        return _Values(self)

    def by_task(self) -> list[TaskCount]:
        """How many rollouts of each task were resolved, unresolved and masked, in the order of the tasks."""
        return self._index.task_counts(self._chosen)

    def to_frame(self) -> pd.DataFrame:
        """A row a rollout; the reward of what was not measured is missing, so that means leave it out."""
        return frame_of(ROLLOUTS, map(_frame_row, self.rows()), index="rollout_id")

    # -- drawn -------------------------------------------------------------------------------------------------------

    def plot_outcomes(self, *, ax: Axes | None = None) -> Axes:
        """A bar a family: resolved, unresolved, masked, not over; the rate at its end is over what was measured."""
        return self._drawn("outcomes", ax)

    def plot_masks(self, *, ax: Axes | None = None) -> Axes:
        """How many masks of which kind happened in which stage."""
        return self._drawn("masks", ax)

    def plot_budgets(self, *, ax: Axes | None = None) -> Axes:
        """Seconds spent, parked and remaining: a bar a rollout, or areas over the rank of more than 40 of them."""
        return self._drawn("budgets", ax)

    def plot_stages(self, *, ax: Axes | None = None) -> Axes:
        """How long each stage takes, and what it took all together; seconds on a logarithmic axis."""
        return self._drawn("stages", ax)

    def plot_gantt(self, *, ax: Axes | None = None) -> Axes:
        """What was going on when: a lane a rollout, or how many of more than 40 were in each stage."""
        return self._drawn("gantt", ax)

    def _drawn(self, picture: str, ax: Axes | None) -> Axes:
        drawn: Axes = getattr(from_notebook("plots.sources"), f"{picture}_of_rollouts")(self._index, self._chosen, ax)
        return drawn

    def __repr__(self) -> str:
        return f"<{len(self)} rollouts>"


def vocabularies() -> dict[GroupColumn, Collection[str]]:
    """The words that a condition may have wherever they occur; what is not here may be anything."""
    return {
        "mask_kind": get_args(FailureKind),
        "mask_stage": get_args(Stage),
        "family": recipe_names(),
        "provider": provider_names(),
    }


def _any_of(key: str, value: Any) -> Any:
    """A single text where any of several may be given."""
    return (value,) if isinstance(value, str) and key != "text" else value


class _Values(ValuesView[Rollout]):
    """Without a query for each of them."""

    def __init__(self, rollouts: Rollouts) -> None:
        super().__init__(rollouts)
        self._rollouts = rollouts

    def __iter__(self) -> Iterator[Rollout]:
        return (Rollout(self._rollouts._index, row) for row in self._rollouts.rows())


def _frame_row(row: RolloutRow) -> dict[str, Any]:
    measured = row.status in ("resolved", "unresolved")
    return {**row.__dict__, "reward": row.reward if measured else None, "flags": ", ".join(row.flags)}
