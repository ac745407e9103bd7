"""Frames of known columns: a name, a type and a meaning each, the same whether there are rows or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["text", "bool", "int", "float", "time", "object"]
DTYPES: Mapping[Kind, str] = {
    "text": "string",
    "bool": "boolean",
    "int": "Int64",
    "float": "Float64",
    "time": "datetime64[us, UTC]",
    "object": "object",
}
"""The pandas type of each kind. All but ``object`` know missing values, so that no column changes its type by one."""


class Column(NamedTuple):
    """One column. Its unit stands at the end of its name (``_s``, ``_mib``, ``_bytes``) and in ``meaning``."""

    name: str
    kind: Kind
    meaning: str

    @property
    def dtype(self) -> str:
        """What pandas calls its type."""
        return DTYPES[self.kind]


def frame_of(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], *, index: str | None = None) -> pd.DataFrame:
    """A frame with exactly these columns and types, in their order; ``index`` names the one that becomes its index.

    Times are given in Unix seconds or as ``datetime``, and are in UTC. What a row lacks is missing.
    """
    import pandas as pd

    given = list(rows)
    data = {column.name: _series(column, [row.get(column.name) for row in given]) for column in columns}
    frame = pd.DataFrame(data, columns=[column.name for column in columns])
    return frame if index is None else frame.set_index(index)


def typed(values: Sequence[Any], index: pd.Index[Any]) -> pd.Series[Any]:
    """A column of values that nobody has described: of the type that all of them have, one that knows missing values.

    Values of different types, lists and dicts stay the objects that they are.
    """
    kinds = {type(value) for value in values if value is not None}
    found = "Float64" if kinds == {int, float} else _OF_TYPE.get(kinds.pop()) if len(kinds) == 1 else None
    return _of(list(values), found or "object", index)


_OF_TYPE = {str: "string", bool: "boolean", int: "Int64", float: "Float64"}


def _series(column: Column, values: list[Any]) -> pd.Series[Any]:
    import pandas as pd

    if column.kind != "time":
        return _of(values, column.dtype)
    numbers = _of([None if value is None else _unix_us(value) for value in values], "Int64")
    dtype: Any = column.dtype
    moments: pd.Series[Any] = pd.to_datetime(numbers, unit="us", utc=True).astype(dtype)
    return moments


def _of(values: list[Any], dtype: Any, index: pd.Index[Any] | None = None) -> pd.Series[Any]:
    import pandas as pd

    made: pd.Series[Any] = pd.Series(values, index=index, dtype=dtype)
    return made


def _unix_us(value: Any) -> int:
    seconds = value if isinstance(value, int | float) else value.timestamp()
    return round(seconds * 1e6)
