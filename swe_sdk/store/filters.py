"""Which rollouts a query is about, and in which order."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from swe_sdk.errors import InputError, did_you_mean
from swe_sdk.model.record import Record
from swe_sdk.store.rows import RolloutStatus

SortColumn = Literal[
    "rollout_id",
    "instance_id",
    "family",
    "repo",
    "agent",
    "model",
    "provider",
    "status",
    "stage",
    "attempt",
    "reward",
    "mask_kind",
    "mask_stage",
    "total_s",
    "spent_s",
    "parked_s",
    "queued_s",
    "remaining_s",
    "steps",
    "tokens_in",
    "tokens_out",
    "model_calls",
    "queued_at",
    "started_at",
    "ended_at",
    "seconds",
    "updated_at",
    "seq",
]
"""Columns of :class:`~swe_sdk.store.rows.RolloutRow` that a page can be sorted by; each has an index."""
GroupColumn = Literal[
    "run", "status", "mask_kind", "mask_stage", "family", "repo", "agent", "model", "provider", "instance_id", "attempt"
]
SORT_COLUMNS: tuple[str, ...] = get_args(SortColumn)
GROUP_COLUMNS: tuple[str, ...] = get_args(GroupColumn)


class RolloutFilter(Record):
    """All that is given must hold; a tuple means any of its values. Nothing given = all rollouts."""

    run: tuple[str, ...] = ()
    status: tuple[RolloutStatus, ...] = ()
    mask_kind: tuple[str, ...] = ()
    mask_stage: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    family: tuple[str, ...] = ()
    repo: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    instance_id: tuple[str, ...] = ()
    text: str = ""
    """Part of the instance id, in any case; ``%`` and ``_`` stand for themselves."""
    tags: dict[str, str] = Field(default_factory=dict)
    final: bool | None = None
    """True = those that are over, False = those that are not."""


class Where(NamedTuple):
    """A condition on ``rollouts AS r`` in SQL, and its parameters."""

    sql: str
    parameters: tuple[object, ...]

    def also(self, sql: str, *parameters: object) -> Where:
        """Both this and another condition."""
        return Where(f"({self.sql}) AND {sql}", (*self.parameters, *parameters))


_COLUMNS = ("status", "mask_kind", "mask_stage", "agent", "model", "family", "repo", "provider", "instance_id")
_MOST_PARAMETERS = 100
_FINAL = "r.status IN ('resolved', 'unresolved', 'masked', 'stopped')"


_IN_TAGS = "r.rid IN (SELECT rid FROM tags WHERE key = ? AND value = ?)"
_HAS_TAG = "EXISTS (SELECT 1 FROM tags AS t WHERE t.rid = r.rid AND t.key = ? AND t.value = ?)"
_LIKE = "r.instance_id LIKE ? ESCAPE '\\'"
_IN_INSTANCES = "r.instance_id IN (SELECT instance_id FROM instances WHERE instance_id LIKE ? ESCAPE '\\')"


def where(chosen: RolloutFilter, *, one_by_one: bool = False) -> Where:
    """The condition for a filter; ``one_by_one``: rows are tried in an order of their own, until there are enough.

    Else all rows that it holds for are wanted, and found by it.
    """
    parts: list[str] = []
    parameters: list[object] = []
    if chosen.run:
        among = _among(chosen.run)
        parts.append(f"r.rn IN (SELECT rn FROM runs WHERE run IN ({among.sql}))")
        parameters += among.parameters
    for column in _COLUMNS:
        values: tuple[str, ...] = getattr(chosen, column)
        if values:
            among = _among(values)
            parts.append(f"r.{column} IN ({among.sql})")
            parameters += among.parameters
    if chosen.text:
        parts.append(_LIKE if one_by_one else _IN_INSTANCES)
        parameters.append(f"%{_literal(chosen.text)}%")
    for key, value in chosen.tags.items():
        parts.append(_HAS_TAG if one_by_one else _IN_TAGS)
        parameters += [key, value]
    if chosen.final is not None:
        parts.append(_FINAL if chosen.final else f"NOT {_FINAL}")
    return Where(" AND ".join(parts) or "1", tuple(parameters))


def require_column(name: str, known: Sequence[str]) -> str:
    """``name`` if it is one of the columns, else ``InputError``: it becomes part of a statement."""
    if name not in known:
        raise InputError(f"there is no column {name!r} to sort or group by", remedy=did_you_mean(name, known))
    return name


def _among(values: tuple[str, ...]) -> Where:
    """What stands in the brackets of ``IN``: SQLite has a limit on the number of parameters."""
    if len(values) <= _MOST_PARAMETERS:
        return Where(", ".join("?" * len(values)), values)
    return Where("SELECT value FROM json_each(?)", (json.dumps(values),))


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
