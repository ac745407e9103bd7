"""Every log parser by name.

Names are those of the official registry (``parse_log_pytest``) with or without their prefix; the others are our own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from swe_sdk.recipes.parsers.c_suites import parse_jq, parse_micropython_test, parse_redis
from swe_sdk.recipes.parsers.calypso import parse_calypso
from swe_sdk.recipes.parsers.cargo import parse_cargo, parse_cargo_test
from swe_sdk.recipes.parsers.ctest import parse_ctest
from swe_sdk.recipes.parsers.django import parse_django
from swe_sdk.recipes.parsers.doctest import parse_doctest, parse_doctest_xml
from swe_sdk.recipes.parsers.go_test import parse_go_test, parse_gotest
from swe_sdk.recipes.parsers.googletest import parse_googletest, parse_gtest
from swe_sdk.recipes.parsers.java import parse_ant, parse_gradle_custom, parse_maven
from swe_sdk.recipes.parsers.jest import parse_jest, parse_jest_json, parse_jest_verbose
from swe_sdk.recipes.parsers.karma import parse_karma
from swe_sdk.recipes.parsers.karma_failures import parse_bpmn_js, parse_chart_js, parse_openlayers
from swe_sdk.recipes.parsers.matplotlib import parse_matplotlib
from swe_sdk.recipes.parsers.mocha import parse_eslint, parse_highlightjs, parse_marked, parse_prismjs
from swe_sdk.recipes.parsers.mocha_strict import parse_mocha_failures, parse_mocha_spec
from swe_sdk.recipes.parsers.node_test import parse_node_test
from swe_sdk.recipes.parsers.p5js import parse_p5js
from swe_sdk.recipes.parsers.phpunit import parse_phpunit, parse_phpunit_testdox
from swe_sdk.recipes.parsers.pytest import parse_pytest, parse_pytest_options, parse_pytest_v2
from swe_sdk.recipes.parsers.pytest_strict import parse_pytest_strict
from swe_sdk.recipes.parsers.quarto import parse_quarto_cli
from swe_sdk.recipes.parsers.ruby import (
    parse_cucumber,
    parse_minitest,
    parse_rspec_transformed_json,
    parse_ruby_unit,
)
from swe_sdk.recipes.parsers.ruby_strict import parse_minitest_verbose, parse_rspec_status, parse_testunit_verbose
from swe_sdk.recipes.parsers.seaborn import parse_seaborn
from swe_sdk.recipes.parsers.structured import STRUCTURED
from swe_sdk.recipes.parsers.swe_rebench import SWE_REBENCH
from swe_sdk.recipes.parsers.sympy import parse_sympy
from swe_sdk.recipes.parsers.sympy_strict import parse_sympy_strict
from swe_sdk.recipes.parsers.tap import parse_tap, parse_tap_strict
from swe_sdk.recipes.parsers.task_choice import CHOICES, Choice
from swe_sdk.recipes.parsers.unittest import parse_unittest
from swe_sdk.recipes.parsers.vitest import parse_vitest, parse_vitest_verbose
from swe_sdk.recipes.parsers.whole_files import parse_carbon, parse_grommet

Parser = Callable[[str], dict[str, str]]

PREFIX: Final = "parse_log_"

PYTHON: Final[dict[str, Parser]] = {
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

OTHERS: Final[dict[str, Parser]] = {
    "calypso": parse_calypso,
    "bpmn_js": parse_bpmn_js,
    "carbon": parse_carbon,
    "chart_js": parse_chart_js,
    "eslint": parse_eslint,
    "grommet": parse_grommet,
    "highlightjs": parse_highlightjs,
    "jest": parse_jest,
    "jest_json": parse_jest_json,
    "karma": parse_karma,
    "marked": parse_marked,
    "openlayers": parse_openlayers,
    "p5js": parse_p5js,
    "prismjs": parse_prismjs,
    "quarto_cli": parse_quarto_cli,
    "react_pdf": parse_carbon,
    "tap": parse_tap,
    "vitest": parse_vitest,
    "redis": parse_redis,
    "jq": parse_jq,
    "doctest": parse_doctest,
    "micropython_test": parse_micropython_test,
    "googletest": parse_googletest,
    "gotest": parse_gotest,
    "maven": parse_maven,
    "ant": parse_ant,
    "gradle_custom": parse_gradle_custom,
    "phpunit": parse_phpunit,
    "minitest": parse_minitest,
    "cucumber": parse_cucumber,
    "ruby_unit": parse_ruby_unit,
    "rspec_transformed_json": parse_rspec_transformed_json,
    "cargo": parse_cargo,
}
"""The official parsers of other languages; four more choose by the task, see :data:`CHOICES`."""

OWN: Final[dict[str, Parser]] = {
    "node_test": parse_node_test,
    "unittest": parse_unittest,
    "cargo_test": parse_cargo_test,
    "ctest": parse_ctest,
    "doctest_xml": parse_doctest_xml,
    "go_test": parse_go_test,
    "gtest": parse_gtest,
    "jest_verbose": parse_jest_verbose,
    "minitest_verbose": parse_minitest_verbose,
    "mocha_failures": parse_mocha_failures,
    "mocha_spec": parse_mocha_spec,
    "phpunit_testdox": parse_phpunit_testdox,
    "pytest_strict": parse_pytest_strict,
    "rspec_status": parse_rspec_status,
    "sympy_strict": parse_sympy_strict,
    "tap_strict": parse_tap_strict,
    "testunit_verbose": parse_testunit_verbose,
    "vitest_verbose": parse_vitest_verbose,
}
"""Strict parsers of our own."""

STRICT: Final = {
    "cargo": "cargo_test",
    "doctest": "doctest_xml",
    "eslint": "mocha_failures",
    "googletest": "gtest",
    "gotest": "go_test",
    "highlightjs": "mocha_spec",
    "jest": "jest_verbose",
    "minitest": "minitest_verbose",
    "phpunit": "phpunit_testdox",
    "rspec_transformed_json": "rspec_status",
    "ruby_unit": "testunit_verbose",
    "tap": "tap_strict",
    "vitest": "vitest_verbose",
}
"""The strict parser for the output that an official one reads; their ids differ where the official ones lose a part."""

PYTHON_STRICT: Final = {
    **dict.fromkeys(PYTHON, "pytest_strict"),
    "django": "unittest",
    "sympy": "sympy_strict",
}
"""The same for Python. No recipe asks for both: of these runners grades have an account of their own."""

FAMILIES: Final[dict[str, Parser]] = {
    **STRUCTURED,
    **{name.removeprefix(PREFIX): parser for name, parser in SWE_REBENCH.items()},
}
"""What other families' rows name, and what reads their results files."""

_PARSERS: Final = {**FAMILIES, **PYTHON, **OTHERS, **OWN}
_NAMES: Final = (*_PARSERS, *CHOICES)

TRACED: Final = frozenset(("calypso", "lighthouse", "maven", "next", "prismjs"))
"""Parsers that look for the commands of the test script, as a shell prints them under ``set -x``."""


def parser_names() -> tuple[str, ...]:
    """The short names of all parsers, sorted."""
    return tuple(sorted(_NAMES))


def traced(parser: str, command: str) -> str:
    """The test command, with tracing switched on where the parser of that name reads the shell's trace."""
    return f"set -x\n{command}" if parser.removeprefix(PREFIX) in TRACED else command


def find_parser(name: str, instance: str | None = None, version: str | None = None) -> Parser:
    """The parser with that name, official prefix or not; a few names mean one or another by the task's id or version.

    Raises :class:`swe_sdk.errors.UnknownParser`, which proposes the names closest to it.
    """
    short = name.removeprefix(PREFIX)
    choice: Choice | None = CHOICES.get(short)
    parser = choice(instance, version) if choice else _PARSERS.get(short)
    if parser is None:
        from swe_sdk.errors import UnknownParser

        raise UnknownParser(name, _alike(name))
    return parser


def _alike(name: str) -> tuple[str, ...]:
    """All names, with the prefix where ``name`` has it: else no two would look close."""
    official = (known for known in _NAMES if known not in OWN)
    return tuple(PREFIX + known for known in official) if name.startswith(PREFIX) else parser_names()
