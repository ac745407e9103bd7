"""Data sets of the Hugging Face hub, by the ``datasets`` package (the extra ``hub``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from swe_sdk.errors import DatasetError, PrerequisiteError

_SIGNS = ("dataset_info.json", "dataset_dict.json")
"""One of these lies in each folder that ``save_to_disk`` writes."""


def is_saved(path: Path) -> bool:
    """Whether a folder was written by the package's ``save_to_disk``."""
    return path.is_dir() and any((path / sign).is_file() for sign in _SIGNS)


def from_hub(name: str, split: str | None = None) -> Iterable[Any]:
    """The rows of a data set of the hub, ``org/name``: of ``split``, of its test split, or of its only one.

    Raises ``PrerequisiteError`` without the package, ``DatasetError`` for whatever else goes wrong.
    """
    return _loaded("load_dataset", name, split)


def from_disk(path: Path, split: str | None = None) -> Iterable[Any]:
    """The rows of a folder that the package wrote; see :func:`from_hub`."""
    return _loaded("load_from_disk", str(path), split)


def _loaded(function: str, name: str, split: str | None) -> Iterable[Any]:
    load = _function(function, name)
    try:
        loaded = load(name)
    except Exception as problem:  # the package lets through the errors of many libraries
        remedy = "check its name, and that the network and the hub can be reached"
        raise DatasetError(f"{name} cannot be loaded: {problem}", remedy=remedy) from problem
    return _chosen(loaded, name, split) if isinstance(loaded, Mapping) else loaded


def _function(function: str, name: str) -> Callable[[str], Any]:
    """A function of the package. A folder named ``datasets``, such as ours, can be imported as well, and has none."""
    try:
        found: Callable[[str], Any] = getattr(import_module("datasets"), function)
    except (ImportError, AttributeError):
        problem = f"there is no file {name}, and loading it as a data set needs the datasets package"
        raise PrerequisiteError(problem, remedy="pip install 'swe_sdk[hub]', or check the path") from None
    return found


def _chosen(splits: Mapping[str, Iterable[Any]], name: str, split: str | None) -> Iterable[Any]:
    if split is None and len(splits) == 1:
        return next(iter(splits.values()))
    wanted = split or "test"
    if wanted not in splits:
        remedy = f"give split= one of {', '.join(map(str, splits))}"
        raise DatasetError(f"{name} has no split {wanted!r}", remedy=remedy)
    return splits[wanted]
