"""Recipes by family name: our own, those of this process, and entry points of ``swe_sdk.recipes`` in other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from swe_sdk.errors import InputError, PrerequisiteError, UnknownFamily
from swe_sdk.recipes.compat import split_family
from swe_sdk.recipes.contract import Recipe
from swe_sdk.recipes.nested import EVALUATORS, NestedRecipe
from swe_sdk.recipes.nv_internal import NvInternalRecipe
from swe_sdk.recipes.r2e_gym import R2EGymRecipe
from swe_sdk.recipes.swe_bench import SweBenchRecipe
from swe_sdk.recipes.swe_bench_ext import SweBenchExtRecipe
from swe_sdk.recipes.swe_bench_multilingual import SweBenchMultilingualRecipe
from swe_sdk.recipes.swe_rebench import SweRebenchRecipe

ENTRY_POINTS = "swe_sdk.recipes"
"""The group; an entry point's name is a family, its object a callable that gives a Recipe."""

_BUILTIN: dict[str, Callable[..., Recipe]] = {
    "swe-bench-multilingual": SweBenchMultilingualRecipe,  # before swe-bench, whose rows look the same
    "swe-bench": SweBenchRecipe,
    "swe-bench-ext": SweBenchExtRecipe,
    "nv-internal-1": NvInternalRecipe,
    "swe-rebench": SweRebenchRecipe,
    "r2e-gym": R2EGymRecipe,
}


_RECIPE = ("family", "version", "ladder", "recognizes", "to_task", "parse", "judge")
_registered: dict[str, Recipe] = {}


def register_recipe(recipe: Recipe) -> None:
    """Let this process know a family of your own: its rows load, and its tasks are graded, as any others.

    A recipe of the same family that was registered before is replaced, so that a cell of a notebook can be run again;
    one that another package offers is hidden. Other processes (workers of ray and slurm, ``swe-sdk``) know the entry
    points of packages alone. :func:`unregister_recipe` undoes it.

    Raises ``InputError`` for what is no :class:`~swe_sdk.recipes.contract.Recipe`, and for names of our own families.
    """
    if isinstance(recipe, type) or not isinstance(recipe, Recipe):
        missing = [name for name in _RECIPE if not hasattr(recipe, name)]
        problem = f"it has no {', '.join(missing)}" if missing else "it is a class"
        raise InputError(f"{recipe!r} is no recipe: {problem}", remedy="give an object, see swe_sdk.recipes.contract")
    name, compat = split_family(recipe.family)
    if name in _BUILTIN or compat or not name:
        raise InputError(f"{recipe.family!r} cannot be the name of a family of your own", remedy="choose another one")
    _registered[name] = recipe
    get_recipe.cache_clear()


def unregister_recipe(family: str) -> None:
    """Forget a family that :func:`register_recipe` has made known. Raises ``UnknownFamily`` where it has not."""
    if family not in _registered:
        raise UnknownFamily(family, _registered)
    del _registered[family]
    get_recipe.cache_clear()


def recipe_names() -> tuple[str, ...]:
    """The names that :func:`get_recipe` takes; nothing is loaded for it."""
    return tuple(sorted({*_BUILTIN, *_registered, *_offered()}))


@cache
def get_recipe(family: str) -> Recipe:
    """The process-wide recipe of that family; ``family@compat`` is the one with another harness's rules, and
    ``family@nested`` the one that asks the family's own evaluator.

    Other packages are looked at only for a name that is not our own. Raises ``UnknownFamily``, ``InputError`` for rules
    that the family does not have, or ``PrerequisiteError`` where another package's recipe cannot be loaded.
    """
    if family in _registered:
        return _registered[family]
    name, compat = split_family(family)
    if compat == "nested" and name in EVALUATORS:
        return NestedRecipe(get_recipe(name))
    if name in _BUILTIN:
        return _BUILTIN[name](compat) if compat else _BUILTIN[name]()
    offered = _offered()
    if name not in offered:
        raise UnknownFamily(family, recipe_names())
    return _load(offered[name], compat)


def detect_family(row: Mapping[str, Any]) -> str | None:
    """The family that a row names, else the first whose recipe recognizes it (our own first), else None."""
    named = row.get("family")
    if isinstance(named, str):
        return named
    return _first(row, _BUILTIN) or _first(row, (name for name in recipe_names() if name not in _BUILTIN))


def _first(row: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next((name for name in names if get_recipe(name).recognizes(row)), None)


def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _load(point: EntryPoint, compat: str) -> Recipe:
    try:
        recipe = point.load()(compat) if compat else point.load()()
    except Exception as error:  # another package's code may raise anything while it is imported
        problem = f"the recipe {point.name!r} of {point.value} cannot be loaded: {error}"
        raise PrerequisiteError(problem, remedy="repair or remove that package") from error
    if not isinstance(recipe, Recipe):
        raise PrerequisiteError(f"{point.value} gives no recipe", remedy="see swe_sdk.recipes.contract.Recipe")
    return recipe
