"""Rows from the files of table libraries: Parquet and Arrow, by pyarrow (the extra ``parquet``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swe_sdk.errors import InputError, PrerequisiteError
from swe_sdk.recipes.located import Located, plain

_A = {"Parquet": "a Parquet", "Arrow": "an Arrow"}


def read_parquet(path: Path, error: type[InputError]) -> Iterator[Located]:
    """The rows of a Parquet file."""
    with _pyarrow(path, "Parquet", error):
        from pyarrow.parquet import ParquetFile  # type: ignore[import-untyped]

        with ParquetFile(path) as file:
            yield from _rows(path, file.iter_batches())


def read_arrow(path: Path, error: type[InputError]) -> Iterator[Located]:
    """The rows of an Arrow file in either of its forms: a stream, as ``datasets`` writes it, or a file (Feather)."""
    with _pyarrow(path, "Arrow", error):
        from pyarrow import ipc, memory_map  # type: ignore[import-untyped]

        with memory_map(str(path)) as source:
            if source.read(6) == b"ARROW1":
                reader = ipc.open_file(source)
                yield from _rows(path, (reader.get_batch(index) for index in range(reader.num_record_batches)))
            else:
                source.seek(0)
                yield from _rows(path, ipc.open_stream(source))


def _rows(path: Path, batches: Iterable[Any]) -> Iterator[Located]:
    index = 0
    for batch in batches:
        for value in batch.to_pylist():
            yield Located(f"{path}[{index}]", plain(value))
            index += 1


@contextmanager
def _pyarrow(path: Path, kind: str, error: type[InputError]) -> Iterator[None]:
    try:
        from pyarrow import ArrowException
    except ImportError:
        raise PrerequisiteError(
            f"{path}: reading {kind} needs pyarrow", remedy="pip install 'swe_sdk[parquet]'"
        ) from None
    try:
        yield
    except ArrowException as problem:
        remedy = "check that it was written completely"
        raise error(f"{path} is not {_A[kind]} file: {problem}", remedy=remedy) from None
