"""Typed reads of one row of a dataset: whatever is wrong is a RowError that names the row, the field and the remedy."""

from __future__ import annotations

import ast
import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from swe_sdk.errors import RowError, did_you_mean
from swe_sdk.model.patch import Patch


class UnknownFields(RowError):
    """A row has fields that its recipe does not know; ``fields`` names them."""

    def __init__(self, row: str, fields: Iterable[str], known: Iterable[str], instance_id: str | None = None) -> None:
        self.fields = tuple(fields)
        self.known = tuple(known)
        first = self.fields[0]
        super().__init__(
            row,
            f"unknown field{'s' * (len(self.fields) > 1)} {', '.join(map(repr, self.fields))}",
            instance_id=instance_id,
            remedy=f"for {first!r}: {did_you_mean(first, self.known)}; unknown_fields='ignore' lets them pass",
        )

    def __reduce__(self) -> tuple[object, ...]:
        return (UnknownFields, (self.row, self.fields, self.known, self.instance_id))


class Fields:
    """An object of a row. A field that is null counts as absent: Parquet fills absent fields with nulls."""

    def __init__(self, data: Mapping[str, Any], where: str, instance_id: str | None = None) -> None:
        self.where = where
        self.instance_id = instance_id
        self._data = data

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def error(self, problem: str, remedy: str = "") -> RowError:
        """A RowError about this row, to be raised."""
        return RowError(self.where, problem, instance_id=self.instance_id, remedy=remedy)

    def require_known(self, known: Iterable[str]) -> None:
        """Raises :class:`UnknownFields` where there are others."""
        names = frozenset(known)
        unknown = [str(name) for name in self._data if name not in names]
        if unknown:
            raise UnknownFields(self.where, unknown, names, self.instance_id)

    def one_of(self, *names: str) -> str:
        """The one of several fields (or spellings of a field) that is there."""
        present = [name for name in names if name in self]
        if len(present) > 1:
            raise self.error(f"there are both {present[0]!r} and {present[1]!r}", "keep one of them")
        if not present:
            raise self.error(f"the field {names[0]!r} is missing", f"add {' or '.join(map(repr, names))}")
        return present[0]

    def text(self, name: str) -> str:
        """A text field that must be there and hold something."""
        value = self._text(name, self._data[self.one_of(name)])
        if not value.strip():
            raise self.error(f"the field {name!r} is empty", f"fill in {name!r}")
        return value

    def optional_text(self, name: str) -> str | None:
        """A text field, or None."""
        return self._text(name, self._data[name]) if name in self else None

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one, an absent field as none."""
        value = self._data[name] if name in self else ()
        values = (value,) if isinstance(value, str) else self._list(name, value, "texts")
        return tuple(self._text(name, item) for item in values)

    def ids(self, *names: str) -> tuple[str, ...]:
        """A list of test ids, under the one of ``names`` that is there: a list, or (in hub rows) its JSON text."""
        name = self.one_of(*names)
        values = self._list(name, self._parsed(name), "test ids")
        return tuple(self._text(name, item) for item in values)

    def listed(self, *names: str) -> tuple[str, ...]:
        """Texts under the first of ``names`` that is there: a list, or its text as JSON or as a Python literal.

        A literal is parsed, never evaluated; a text that is no list is a list of one, an empty one an empty list.
        """
        name = next((name for name in names if name in self), names[0])
        value = self._data.get(name)
        if not isinstance(value, str):
            return self.texts(self.one_of(name))
        return tuple(self._text(name, item) for item in self._list(name, self._literal(name, value.strip()), "texts"))

    def _literal(self, name: str, text: str) -> Any:
        if not text.startswith(("[", "(")):
            return [text] if text else []
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
        try:
            return ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise self.error(f"the field {name!r} holds a text that is no list", "write a JSON list") from None

    def text_map(self, name: str) -> dict[str, str]:
        """An object of texts, such as environment variables; an absent field is an empty one."""
        variables = self.mapping(name)._data if name in self else {}
        return {self._text(name, key): self._text(f"{name}.{key}", value) for key, value in variables.items()}

    def first_text(self, *names: str) -> str | None:
        """The text under the first of ``names`` that is there, or None."""
        return next((self.optional_text(name) for name in names if name in self), None)

    def mapping(self, name: str) -> Fields:
        """An object field, or (in hub rows) its JSON text; errors about it name this row."""
        return self._inner(self.one_of(name), self._parsed(name))

    def mappings(self, name: str) -> tuple[Fields, ...]:
        """A list of objects; an absent field is an empty list."""
        values = self._list(name, self._parsed(name) if name in self else (), "objects")
        return tuple(self._inner(f"{name}[{index}]", value) for index, value in enumerate(values))

    def patch(self, name: str) -> Patch | None:
        """A patch from the field ``name`` (text; bytes in memory) or from ``name_base64``, or None."""
        encoded = f"{name}_base64"
        if name not in self and encoded not in self:
            return None
        if self.one_of(name, encoded) == encoded:
            return Patch.of(self._bytes(encoded))
        value = self._data[name]
        if not isinstance(value, str | bytes):
            raise self.error(f"the field {name!r} must hold text, not {_kind(value)}")
        try:
            return Patch.of(value)
        except UnicodeEncodeError:
            raise self.error(f"the field {name!r} holds lone surrogates", f"give the bytes as {encoded!r}") from None

    def plain(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of the fields that are there, as they are; raises where one is not plain JSON data."""
        found = {name: self._data[name] for name in names if name in self}
        for name, value in found.items():
            try:
                json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
            except (TypeError, ValueError, RecursionError):
                raise self.error(f"the field {name!r} is not plain JSON data") from None
        return found

    def _inner(self, name: str, value: Any) -> Fields:
        if not isinstance(value, Mapping):
            raise self.error(f"the field {name!r} must be an object, not {_kind(value)}")
        return Fields(value, f"{self.where}, field {name!r}", self.instance_id)

    def _list(self, name: str, value: Any, of: str) -> list[Any] | tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise self.error(f"the field {name!r} must be a list of {of}, not {_kind(value)}")
        return value

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            remedy = f'write it as "{value}"' if type(value) in (int, float) else ""
            raise self.error(f"the field {name!r} must hold text, not {_kind(value)}", remedy)
        if "\0" in value:
            raise self.error(f"the field {name!r} holds a NUL character", "remove it")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.error(f"the field {name!r} holds lone surrogates", "write it as valid Unicode") from None
        return value

    def _parsed(self, name: str) -> Any:
        value = self._data[name]
        try:
            return json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            raise self.error(f"the field {name!r} holds a text that is not JSON") from None

    def _bytes(self, name: str) -> bytes:
        try:
            return base64.b64decode(self._text(name, self._data[name]), validate=True)
        except ValueError as error:  # binascii.Error, or a character outside ASCII
            raise self.error(f"the field {name!r} is not base64: {error}") from None


class Row(Fields):
    """One row, which has an ``instance_id``."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        super().__init__(data, where)
        name = self.text("instance_id")
        if name != name.strip() or not name.isprintable():
            raise self.error(f"the instance id {name!r} has unprintable characters, or space around it")
        self.instance_id = name
        self.id = name


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        tuple: "a list",
        str: "a text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value)) or ("a number" if isinstance(value, int | float) else f"a {type(value).__name__}")
