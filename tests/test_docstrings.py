"""Every public name says what it is: a docstring, units of what has one, and the errors that it raises."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from swe_sdk import errors

MODULES = ("", "aio", "agents", "checkpoint", "errors", "executors", "metrics", "testing")
"""Public modules below ``swe_sdk``: those with an ``__all__``, and the errors."""
RETURNED = (
    "grading.health.Health",
    "grading.health.TaskHealth",
    "grading.outcomes.Outcomes",
    "grading.regrades.Regrade",
    "grading.regrades.Regrades",
    "metrics.comparison.Comparison",
    "metrics.comparison.TaskPair",
    "runs.checkpoints.retained.Snapshots",
    "runs.checkpoints.view.Checkpoint",
    "runs.checkpoints.view.Checkpoints",
    "runs.checkpoints.view.HeldRollout",
    "runs.log.Log",
    "runs.log.Logs",
    "runs.paged.Paged",
    "runs.rollouts.Rollouts",
    "sandbox.contract.Box",
    "sandbox.contract.SandboxProvider",
    "store.index.RunIndex",
    "store.filters.RolloutFilter",
)
"""What the public functions hand out, and what users implement."""
MEASURES = re.compile(
    r"(?:^|_)(?:timeout|interval|duration|memory|disk|delay|grace|deadline|patience|cap|age|size|height)$"
)
UNITS = re.compile(r"\b(?:seconds?|pixels|bytes|MiB|rows?|rollouts|tasks|inches|minutes?)\b|\"\d+[smh]\"")
ERRORS = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}


class Named(NamedTuple):
    """A public function, method, property or class, by its full name."""

    name: str
    value: Any
    owner: type | None = None


def objects() -> Iterator[Named]:
    for module in MODULES:
        room = importlib.import_module(f"swe_sdk.{module}".rstrip("."))
        names = getattr(room, "__all__", None) or [name for name in vars(room) if name in ERRORS]
        for name in names:
            yield Named(f"swe_sdk.{module}.{name}".replace("..", "."), getattr(room, name))
    for path in RETURNED:
        module, _, name = path.rpartition(".")
        yield Named(f"swe_sdk.{path}", getattr(importlib.import_module(f"swe_sdk.{module}"), name))


@cache
def members() -> tuple[Named, ...]:
    """All of them once, with the public members of classes that are defined in this package."""
    found = {}
    for each in objects():
        found[id(each.value)] = each
        if inspect.isclass(each.value):
            for name, member in inspect.getmembers(each.value):
                if not name.startswith("_") and _is_ours(member):
                    found[id(member), each.name] = Named(f"{each.name}.{name}", member, each.value)
    return tuple(found.values())


def _is_ours(member: Any) -> bool:
    function = member.fget if isinstance(member, property) else inspect.unwrap(getattr(member, "__func__", member))
    return inspect.isroutine(function) and (getattr(function, "__module__", "") or "").startswith("swe_sdk")


def _function(value: Any) -> Any:
    return value.fget if isinstance(value, property) else inspect.unwrap(getattr(value, "__func__", value))


def functions() -> list[Named]:
    return [each for each in members() if not inspect.isclass(each.value) and callable(_function(each.value))]


def test_there_is_much_to_look_at() -> None:
    assert len(members()) > 400
    assert {"swe_sdk.grade", "swe_sdk.Sandbox.exec", "swe_sdk.Run.metrics"} <= {each.name for each in members()}


def test_every_public_name_has_a_docstring() -> None:
    plain = {"swe_sdk.DEFAULT_POLICY", "swe_sdk.aio.DEFAULT_POLICY"}
    bare = [each.name for each in members() if not (inspect.getdoc(each.value) or "").strip()]
    assert set(bare) <= plain


def test_docstrings_are_sentences_of_their_own() -> None:
    """Not what pydantic or object say of every class."""
    for each in members():
        if inspect.isclass(each.value) and each.name != "swe_sdk.aio.Sandbox":  # it is what it wraps
            inherited = [base.__doc__ for base in each.value.__mro__[1:]]
            assert each.value.__doc__ not in inherited, each.name


def test_measures_have_units() -> None:
    """In the name (``timeout_s``), or in the docstring of the function or of its class."""
    lacking = []
    for each in members():
        target = each.value if inspect.isclass(each.value) else _function(each.value)
        try:
            parameters = inspect.signature(target).parameters
        except (TypeError, ValueError):
            continue
        told = f"{inspect.getdoc(each.value)} {inspect.getdoc(each.owner) if each.owner else ''}"
        without = [name for name in parameters if MEASURES.search(name)] if not UNITS.search(told) else []
        lacking += [f"{each.name}({name})" for name in without]
    assert lacking == []


def raised(function: Any) -> set[str]:
    """Errors of this package that its body raises by name, outside of functions within it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return set()
    names, left = set(), list(ast.iter_child_nodes(tree.body[0]))
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            names.add(node.exc.func.id)
        left += ast.iter_child_nodes(node)
    return names & ERRORS


@pytest.mark.parametrize("module", MODULES)
def test_modules_say_what_they_are(module: str) -> None:
    assert (importlib.import_module(f"swe_sdk.{module}".rstrip(".")).__doc__ or "").strip()


def test_errors_that_are_raised_are_said() -> None:
    silent = []
    for each in functions():
        function = _function(each.value)
        told = f"{inspect.getdoc(each.value)} {inspect.getdoc(each.owner) if each.owner else ''}"
        unsaid = [name for name in raised(function) if not _is_said(name, told)]
        silent += [f"{each.name}: {name}" for name in unsaid]
    assert sorted(set(silent)) == []


def _is_said(error: str, told: str) -> bool:
    """By its own name, or by that of what it is a kind of."""
    return any(kind.__name__ in told for kind in getattr(errors, error).__mro__[:3])
