"""Sort names and group them by their initials."""

from __future__ import annotations

from collections.abc import Iterable

from .folding import fold

OTHERS = "#"


def sort_names(names: Iterable[str]) -> list[str]:
    """The names in the order of the directory; equal keys are ordered by the names themselves."""
    return sorted(names, key=_sort_key)


def build_index(names: Iterable[str]) -> dict[str, list[str]]:
    """The sorted names under their initials, in the order of the alphabet, ``#`` last."""
    groups: dict[str, list[str]] = {}
    for name in sort_names(names):
        groups.setdefault(initial(name), []).append(name)
    return groups


def initial(name: str) -> str:
    """The heading under which ``name`` stands."""
    first = fold(name)[:1]
    return first.upper() if "a" <= first <= "z" else OTHERS


def _sort_key(name: str) -> tuple[bool, str, str]:
    return (initial(name) == OTHERS, fold(name), name)
