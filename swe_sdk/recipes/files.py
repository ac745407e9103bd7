"""Rows from files and from memory: read, decoded and located, not yet understood."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from swe_sdk.errors import DatasetError, InputError
from swe_sdk.recipes.located import Located, plain
from swe_sdk.recipes.tables import read_arrow, read_parquet


def read_rows(path: Path, error: type[InputError] = DatasetError) -> Iterator[Located]:
    """The values of a ``.jsonl``, ``.json``, ``.parquet`` or ``.arrow`` file in order, each with its place.

    A ``.json`` file holds a list, an object of objects by instance id (which a row without one takes from its key), or
    one row. UTF-8 with or without a byte order mark; CRLF and blank lines are fine. Raises ``error`` where the file is
    missing, unreadable, empty or malformed (naming the line), ``PrerequisiteError`` where Parquet or Arrow need more.
    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise error(f"{path} is of an unknown kind", remedy=f"give a file of {', '.join(SUFFIXES)}")
    empty = True
    try:
        for located in reader(path, error):
            empty = False
            yield located
    except OSError as problem:
        _unreadable(path, problem, error)
    if empty:
        raise error(f"{path} holds no rows", remedy="check that it was written completely")


def rows_by_id(where: str, rows: Mapping[Any, Any], field: str = "instance_id") -> Iterator[Located]:
    """The objects of a mapping by instance id; one that lacks its id takes it from its key."""
    for key, value in rows.items():
        if isinstance(value, Mapping) and value.get(field) is None:
            value = {**value, field: key}
        yield Located(f"{where}[{key!r}]", value)


def rows_in_memory(rows: Iterable[Any], what: str) -> Iterator[Located]:
    """The items of a list in memory, with their places (``row 3``)."""
    return (Located(f"{what} {index}", plain(item)) for index, item in enumerate(rows))


def _unreadable(path: Path, problem: OSError, error: type[InputError]) -> NoReturn:
    if isinstance(problem, FileNotFoundError):
        raise error(f"there is no file {path}", remedy="check the path") from None
    raise error(f"{path} cannot be read: {problem.strerror or problem}", remedy="check the path") from None


def _json_lines(path: Path, error: type[InputError]) -> Iterator[Located]:
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            data = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            text = _decode(data, path, number, offset + len(line) - len(data), error)
            offset += len(line)
            if text.strip():
                yield Located(f"{path}:{number}", _parse(text, f"{path}:{number}", error))


def _json_file(path: Path, error: type[InputError]) -> Iterator[Located]:
    data = path.read_bytes()
    body = data.removeprefix(codecs.BOM_UTF8)
    text = _decode(body, path, 1, len(data) - len(body), error)
    value = _parse(text, str(path), error) if text.strip() else []
    if isinstance(value, list):
        return (Located(f"{path}[{index}]", item) for index, item in enumerate(value))
    if not isinstance(value, dict):
        raise error(f"{path} holds neither a list nor an object", remedy="write a list of rows")
    if isinstance(value.get("instance_id"), str):
        return iter((Located(str(path), value),))
    return rows_by_id(str(path), value)


def _decode(data: bytes, path: Path, line: int, offset: int, error: type[InputError]) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line += data.count(b"\n", 0, problem.start)
        at = f"line {line}, byte {offset + problem.start} of the file (0x{data[problem.start]:02x})"
        raise error(f"{path} is not UTF-8: {at}", remedy="convert it, for example with iconv -t UTF-8") from None


def _parse(text: str, where: str, error: type[InputError]) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as problem:
        at = f"line {problem.lineno}, " if problem.lineno > 1 else ""
        raise error(f"{where}: invalid JSON: {problem.msg} ({at}column {problem.colno})", remedy=_CUT) from None
    except (ValueError, RecursionError) as problem:
        raise error(f"{where}: invalid JSON: {problem}", remedy=_CUT) from None


_READERS: dict[str, Callable[[Path, type[InputError]], Iterator[Located]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_file,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
}

SUFFIXES = tuple(_READERS)
"""The kinds of files that :func:`read_rows` reads."""

_CUT = "check that the file was written completely, one JSON value a line where it is .jsonl"


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
