"""The rollouts of a run: a mapping by id that stays on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, TypeVar, overload

from pydantic import ValidationError

from swe_sdk.errors import InputError, UnknownRollout, did_you_mean
from swe_sdk.runs.rollout import Rollout
from swe_sdk.shown import html_table, html_text
from swe_sdk.store.filters import RolloutFilter, SortColumn
from swe_sdk.store.index import RunIndex
from swe_sdk.store.rows import RolloutRow

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
_PAGE = 1000
_SHOWN = 20
_HEAD = ("rollout", "status", "reward", "why", "attempt", "steps", "spent", "parked")


class Rollouts(Mapping[str, Rollout]):
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
        ``instance_id``, ``text`` (a part of the instance id), ``final``, ... Raises ``InputError``.
        """
        for key in conditions.keys() - RolloutFilter.model_fields.keys():
            raise InputError(f"unknown condition {key!r}", remedy=did_you_mean(key, RolloutFilter.model_fields))
        told = {key: _any_of(key, value) for key, value in conditions.items()}
        try:
            return Rollouts(self._index, RolloutFilter.model_validate({**self._chosen.model_dump(), **told}))
        except ValidationError as error:
            first = error.errors()[0]
            raise InputError(f"{first['loc'][0]}={conditions.get(str(first['loc'][0]))!r}: {first['msg']}") from None

    def page(
        self, number: int = 1, size: int = 50, *, sort: SortColumn = "queued_at", descending: bool = False
    ) -> list[Rollout]:
        """Page ``number`` (from 1) of ``size`` rollouts, sorted by a column of their rows."""
        offset = (max(1, number) - 1) * size
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

    def to_frame(self) -> pd.DataFrame:
        """A row a rollout; the reward of a masked one is missing, so that means leave it out."""
        import pandas as pd

        columns = [name for name in RolloutRow.model_fields if name not in ("run", "seq", "tags")]
        frame = pd.DataFrame([_frame_row(row, columns) for row in self.rows()], columns=columns)
        return frame.set_index("rollout_id")

    def __repr__(self) -> str:
        return f"<{len(self)} rollouts>"

    def _repr_html_(self) -> str:
        rows = [_html_row(each.row) for each in self.page(1, _SHOWN)]
        hidden = len(self) - len(rows)
        more = f"<p>{html_text(f'and {hidden} more')}</p>" if hidden > 0 else ""
        return html_table(_HEAD, rows) + more


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


def _frame_row(row: RolloutRow, columns: list[str]) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in columns}
    return values | {"reward": None if row.status == "masked" else row.reward, "flags": ", ".join(row.flags)}


def _html_row(row: RolloutRow) -> tuple[object, ...]:
    reward = "" if row.reward is None or row.status == "masked" else f"{row.reward:.1f}"
    why = f"{row.mask_kind} in {row.mask_stage}: {row.reason}" if row.mask_kind else row.reason
    spent, parked = f"{row.spent_s:.1f} s", f"{row.parked_s:.1f} s"
    return row.rollout_id, row.status, reward, why, row.attempt, row.steps, spent, parked
