"""Where rows come from: a bundled data set, a file, a folder, memory, or the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from swe_sdk.errors import DatasetError, did_you_mean
from swe_sdk.paths import bundled_datasets_dir
from swe_sdk.recipes.files import SUFFIXES, read_rows, rows_by_id, rows_in_memory
from swe_sdk.recipes.hub import from_disk, from_hub, is_saved
from swe_sdk.recipes.located import Located

Rows = Iterable[Mapping[str, Any]] | Mapping[str, Mapping[str, Any]]

_FILE = "tasks.jsonl"
_NAME = re.compile(r"[\w-]+")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


class Origin(NamedTuple):
    """Rows, the name of where they come from, and the folder at which relative paths in them start."""

    name: str
    root: Path
    rows: Iterator[Located]


def open_rows(source: str | Path | Rows, split: str | None = None) -> Origin:
    """The rows of a source as :func:`swe_sdk.recipes.dataset.load_tasks` takes it; ``split`` is of a hub's data set.

    Raises ``DatasetError`` or ``PrerequisiteError``, here or while the rows are read.
    """
    if isinstance(source, Mapping):
        return Origin("", Path.cwd(), rows_by_id("rows", source))
    if not isinstance(source, str | Path):
        return Origin("", Path.cwd(), rows_in_memory(_checked(source), "row"))
    path = _find(source)
    if path is not None and is_saved(path):
        return Origin(path.name, Path.cwd(), rows_in_memory(from_disk(path, split), f"{path} row"))
    if path is not None:
        file = path / _FILE if path.is_dir() else path
        return Origin(path.name if path.is_dir() else path.stem, file.parent, read_rows(file))
    text = str(source)
    if _HUB_ID.fullmatch(text) and not text.endswith(SUFFIXES):
        return Origin(text, Path.cwd(), rows_in_memory(from_hub(text, split), f"{text} row"))
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
