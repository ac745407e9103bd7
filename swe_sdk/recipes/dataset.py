"""Loading task sets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from swe_sdk.errors import DuplicateTask, InputError, RowError, UnknownTask
from swe_sdk.model.task import Task
from swe_sdk.recipes.contract import Recipe
from swe_sdk.recipes.nemo_gym import unwrapped
from swe_sdk.recipes.origins import Rows, open_rows
from swe_sdk.recipes.registry import detect_family, get_recipe, recipe_names
from swe_sdk.recipes.row import UnknownFields
from swe_sdk.recipes.taskset import TaskSet

__all__ = ["TaskSet", "load_tasks"]

UnknownFieldsRule = Literal["error", "ignore"]


def load_tasks(
    source: str | Path | Rows,
    *,
    family: str | None = None,
    instance_ids: Collection[str] | None = None,
    unknown_fields: UnknownFieldsRule = "error",
    split: str | None = None,
) -> TaskSet:
    """The tasks of ``source``: a bundled name ("mini"), a path to a .jsonl, .json, .parquet or .arrow file or to a
    folder with a ``tasks.jsonl``, rows in memory, or a hub id ("org/name"; ``split`` of it, by default its test split,
    by the ``datasets`` package, which also reads folders that it saved).

    The family of a row is ``family``, else its ``family`` field, else detected; ``family@compat`` asks for another
    harness's rules. Rows of NeMo Gym's servers, with the task within a request, are unwrapped. ``instance_ids`` selects
    tasks, in the order of the source. A field that a row's recipe does not know is an error unless
    ``unknown_fields="ignore"``. Relative paths in rows start at their file's folder, or at the current one for rows in
    memory.

    Raises an ``InputError`` that names the row and the remedy (``DatasetError``, ``RowError``, ``DuplicateTask``,
    ``UnknownTask``, ``UnknownFamily``), or ``PrerequisiteError`` where a package is missing.
    """
    if unknown_fields not in ("error", "ignore"):
        raise InputError(f"unknown_fields={unknown_fields!r}", remedy='use "error" or "ignore"')
    recipe = None if family is None else get_recipe(family)
    wanted = None if instance_ids is None else _wanted(instance_ids)
    name, root, rows = open_rows(source, split)
    seen: dict[str, str] = {}
    tasks = []
    for where, outer in rows:
        row = unwrapped(outer, where) if isinstance(outer, Mapping) else outer
        identifier = _identify(where, row, seen)
        if wanted is None or identifier in wanted:
            tasks.append(_convert(recipe or _recipe(where, row), where, row, root, unknown_fields))
    for missing in sorted((wanted or frozenset()) - seen.keys()):
        raise UnknownTask(missing, seen)
    return TaskSet(tasks, name=name)


def _wanted(instance_ids: Collection[str]) -> frozenset[str]:
    if isinstance(instance_ids, str):
        raise InputError("instance_ids is one text", remedy=f"give a list: [{instance_ids!r}]")
    return frozenset(instance_ids)


def _identify(where: str, row: Any, seen: dict[str, str]) -> str | None:
    """The row's id, noted in ``seen``; None where it has none, which its recipe will say."""
    if not isinstance(row, Mapping):
        raise RowError(where, f"a row must be an object, not a {type(row).__name__}", remedy="write one object a task")
    identifier = _id(row)
    if identifier is not None and seen.setdefault(identifier, where) is not where:
        remedy = "give each task an id of its own, or remove one"
        raise DuplicateTask(f"{seen[identifier]} and {where} are both named {identifier!r}", remedy=remedy)
    return identifier


def _id(row: Mapping[str, Any]) -> str | None:
    identifier = row.get("instance_id")
    return identifier if isinstance(identifier, str) else None


def _recipe(where: str, row: Mapping[str, Any]) -> Recipe:
    family = detect_family(row)
    if family is None:
        remedy = f"pass family=..., or add a field 'family'; known: {', '.join(recipe_names())}"
        raise RowError(where, "no recipe recognizes the row", instance_id=_id(row), remedy=remedy)
    try:
        return get_recipe(family)
    except InputError as problem:
        raise RowError(where, problem.message, instance_id=_id(row), remedy=problem.remedy) from None


def _convert(recipe: Recipe, where: str, row: Mapping[str, Any], root: Path, unknown_fields: UnknownFieldsRule) -> Task:
    try:
        return recipe.to_task(row, where=where, root=root)
    except UnknownFields as problem:
        if unknown_fields == "error":
            raise
        known = {name: value for name, value in row.items() if str(name) not in problem.fields}
        return recipe.to_task(known, where=where, root=root)
