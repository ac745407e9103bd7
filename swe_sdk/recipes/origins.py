"""Where rows come from: a bundled data set, a file, a folder, memory, or the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from swe_sdk.errors import DatasetError, PrerequisiteError, did_you_mean
from swe_sdk.paths import bundled_datasets_dir
from swe_sdk.recipes.files import SUFFIXES, Located, read_rows, rows_by_id, rows_in_memory

Rows = Iterable[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]

_FILE = "tasks.jsonl"
_NAME = re.compile(r"[\w-]+")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


class Origin(NamedTuple):
    """Rows, the name of where they come from, and the folder at which relative paths in them start."""

    name: str
    root: Path
    rows: Iterator[Located]


def open_rows(source: str | Path | Rows) -> Origin:
    """The rows of a source as :func:`swe_sdk.recipes.dataset.load_tasks` takes it.

    Raises ``DatasetError`` or ``PrerequisiteError``, here or while the rows are read.
    """
    if isinstance(source, Mapping):
        return Origin("", Path.cwd(), rows_by_id("rows", source))
    if not isinstance(source, str | Path):
        return Origin("", Path.cwd(), rows_in_memory(_checked(source), "row"))
    path = _find(source)
    if path is not None:
        file = path / _FILE if path.is_dir() else path
        return Origin(path.name if path.is_dir() else path.stem, file.parent, read_rows(file))
    text = str(source)
    if _HUB_ID.fullmatch(text) and not text.endswith(SUFFIXES):
        return Origin(text, Path.cwd(), rows_in_memory(_from_hub(text), f"{text} row"))
    _nothing(text)


def _checked(source: Any) -> Iterable[Any]:
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        raise DatasetError("a data frame is not a list of rows", remedy='give frame.to_dict("records")')
    if not isinstance(source, Iterable) or isinstance(source, bytes):
        raise DatasetError(f"tasks cannot be loaded from a {type(source).__name__}", remedy="give a path or rows")
    return source


def _find(source: str | Path) -> Path | None:
    """The file or folder meant: a bundled name first, then a path."""
    try:
        if isinstance(source, str) and _NAME.fullmatch(source):
            bundled = bundled_datasets_dir() / source
            if (bundled / _FILE).is_file():
                return bundled
        return Path(source) if Path(source).exists() else None
    except (OSError, ValueError) as problem:  # a name that is too long, or holds a NUL
        raise DatasetError(f"{str(source)[:200]!r} is no path: {problem}", remedy="check the path") from None


def _nothing(source: str) -> NoReturn:
    if _NAME.fullmatch(source):
        bundled = [path.parent.name for path in bundled_datasets_dir().glob(f"*/{_FILE}")]
        raise DatasetError(f"there is no bundled data set and no file {source!r}", remedy=did_you_mean(source, bundled))
    raise DatasetError(f"there is no file or folder {source!r}", remedy="check the path")


def _from_hub(name: str) -> Iterable[Any]:
    try:
        load_dataset = import_module("datasets").load_dataset
    except (ImportError, AttributeError):
        raise PrerequisiteError(
            f"there is no file {name}, and loading it from the hub needs the datasets package",
            remedy="pip install datasets, or check the path",
        ) from None
    try:
        splits: Mapping[str, Iterable[Any]] = load_dataset(name)
    except Exception as problem:  # the package lets through the errors of many libraries
        raise DatasetError(f"{name} cannot be loaded from the hub: {problem}", remedy="check its name") from problem
    if "test" in splits:
        return splits["test"]
    if len(splits) == 1:
        return next(iter(splits.values()))
    remedy = f'give its rows: load_tasks(datasets.load_dataset("{name}", split=...)); it has {", ".join(splits)}'
    raise DatasetError(f"{name} has no test split", remedy=remedy)
