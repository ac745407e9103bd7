"""Every log parser by name.

Names are those of the official registry (``parse_log_pytest``) with or without their prefix; two more are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from swe_sdk.recipes.parsers.django import parse_django
from swe_sdk.recipes.parsers.matplotlib import parse_matplotlib
from swe_sdk.recipes.parsers.node_test import parse_node_test
from swe_sdk.recipes.parsers.pytest import parse_pytest, parse_pytest_options, parse_pytest_v2
from swe_sdk.recipes.parsers.seaborn import parse_seaborn
from swe_sdk.recipes.parsers.sympy import parse_sympy
from swe_sdk.recipes.parsers.unittest import parse_unittest

Parser = Callable[[str], dict[str, str]]

PREFIX: Final = "parse_log_"

OFFICIAL: Final[dict[str, Parser]] = {
    "pytest": parse_pytest,
    "pytest_options": parse_pytest_options,
    "pytest_v2": parse_pytest_v2,
    "django": parse_django,
    "matplotlib": parse_matplotlib,
    "seaborn": parse_seaborn,
    "sympy": parse_sympy,
    **dict.fromkeys(("astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray"), parse_pytest),
    **dict.fromkeys(("pydicom", "pylint", "requests"), parse_pytest_options),
    **dict.fromkeys(("astropy", "scikit", "sphinx"), parse_pytest_v2),
}
"""The Python parsers of the official registry, by their names without the prefix."""

OWN: Final[dict[str, Parser]] = {"node_test": parse_node_test, "unittest": parse_unittest}
"""Strict parsers that the official harness has no counterpart of."""

_PARSERS: Final = {**OFFICIAL, **OWN}

_REPOSITORIES: Final = {
    "astropy/astropy": "astropy",
    "django/django": "django",
    "marshmallow-code/marshmallow": "marshmallow",
    "matplotlib/matplotlib": "matplotlib",
    "mwaskom/seaborn": "seaborn",
    "pallets/flask": "flask",
    "psf/requests": "requests",
    "pvlib/pvlib-python": "pvlib",
    "pydata/xarray": "xarray",
    "pydicom/pydicom": "pydicom",
    "pylint-dev/astroid": "astroid",
    "pylint-dev/pylint": "pylint",
    "pytest-dev/pytest": "pytest",
    "pyvista/pyvista": "pyvista",
    "scikit-learn/scikit-learn": "scikit",
    "sphinx-doc/sphinx": "sphinx",
    "sqlfluff/sqlfluff": "sqlfluff",
    "sympy/sympy": "sympy",
}


def parser_names() -> tuple[str, ...]:
    """The short names of all parsers, sorted."""
    return tuple(sorted(_PARSERS))


def parser_for_repository(repository: str) -> str | None:
    """The short name of the parser for ``owner/name``, for rows that name none (4.x and earlier); None if unknown."""
    return _REPOSITORIES.get(repository)


def find_parser(name: str) -> Parser:
    """The parser with that name, official prefix or not.

    Raises :class:`swe_sdk.errors.UnknownParser`, which proposes the names closest to it.
    """
    parser = _PARSERS.get(name.removeprefix(PREFIX))
    if parser is None:
        from swe_sdk.errors import UnknownParser

        raise UnknownParser(name, _alike(name))
    return parser


def _alike(name: str) -> tuple[str, ...]:
    """All names, with the prefix where ``name`` has it: else no two would look close."""
    return tuple(PREFIX + known for known in OFFICIAL) if name.startswith(PREFIX) else parser_names()
