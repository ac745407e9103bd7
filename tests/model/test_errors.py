"""The error tree is the one that is drawn, and every error survives a trip to another process."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Iterator

import pytest

from swe_sdk import errors
from swe_sdk.errors import SweError, did_you_mean

_LINE = re.compile(r"^    (?P<indent>(?:│   |    )*(?:├── |└── )?)(?P<name>[A-Z]\w+)(?: \((?P<also>\w+)\))? {2,}\S")


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """Name of each error in the docstring to its parent and the built-in error that it also is."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    stack: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = _LINE.match(line)
        if match:
            depth = len(match["indent"]) // 4
            del stack[depth:]
            tree[match["name"]] = (stack[-1] if stack else None, match["also"])
            stack.append(match["name"])
    return tree


def public_errors() -> dict[str, type[SweError]]:
    return {
        name: each
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, SweError) and not name.startswith("_")
    }


def public_parent(error: type[SweError]) -> str | None:
    parents = [parent for parent in error.__mro__[1:] if issubclass(parent, SweError)]
    return next((parent.__name__ for parent in parents if not parent.__name__.startswith("_")), None)


def built_in_parent(error: type[SweError]) -> str | None:
    """What else it is, so that callers may catch that."""
    parents = (parent for parent in error.__bases__ if parent is not Exception and not issubclass(parent, SweError))
    return next((parent.__name__ for parent in parents), None)


def test_the_drawn_tree_is_the_real_tree() -> None:
    real = {name: (public_parent(error), built_in_parent(error)) for name, error in public_errors().items()}
    assert drawn_tree() == real
    assert len(real) > 25


def test_every_error_says_in_its_docstring_what_it_means() -> None:
    assert [name for name, error in public_errors().items() if not error.__doc__] == []


def examples() -> Iterator[SweError]:
    special = {
        "RowError": lambda: errors.RowError("tasks.jsonl:3", "no repo", instance_id="a-1", remedy="add one"),
        "MissingTool": lambda: errors.MissingTool("node", remedy="apt-get install nodejs"),
        "HarnessUnavailable": lambda: errors.HarnessUnavailable("opencode", "no npm", remedy="install npm"),
        "CheckpointError": lambda: errors.CheckpointError("invalid_phase", "not now", remedy="wait"),
        "CoordinationError": lambda: errors.CoordinationError("commit", {"agent": "it is busy"}),
        "OutputFailed": lambda: errors.OutputFailed(OSError(28, "No space left on device")),
        "BuildFailed": lambda: errors.BuildFailed("pip install", "x" * 5000 + " the end", remedy="look"),
    }
    for name, error in public_errors().items():
        if name in special:
            yield special[name]()
        elif name.startswith("Unknown"):
            yield error("tests", ["test", "rest", "other"])  # type: ignore[arg-type]
        else:
            yield error("it failed", remedy="do that")


@pytest.mark.parametrize("error", list(examples()), ids=lambda error: type(error).__name__)
def test_errors_survive_pickling_and_copying(error: SweError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert (again.message, again.remedy) == (error.message, error.remedy)
        assert vars(again) == vars(error)


@pytest.mark.parametrize("error", list(examples()), ids=lambda error: type(error).__name__)
def test_the_remedy_is_part_of_what_is_shown(error: SweError) -> None:
    assert error.remedy
    assert str(error) == f"{error.message} ({error.remedy})"
    assert str(SweError("just that")) == "just that"


def test_names_are_corrected_where_they_are_close() -> None:
    assert did_you_mean("djangoo", ["django", "flask"]) == "did you mean django?"
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b"
    assert did_you_mean("zzz", []) == "none is known"
    assert did_you_mean("zzz", (f"name-{n:03}" for n in range(50))).endswith("name-019, ...")
    assert str(errors.UnknownProvider("lokal", ["local"])) == ("unknown sandbox provider 'lokal' (did you mean local?)")


def test_a_missing_tool_always_has_a_remedy() -> None:
    assert errors.MissingTool("cargo").remedy == "install cargo"


def test_a_failed_build_shows_the_end_of_its_output_and_keeps_all() -> None:
    failed = errors.BuildFailed("step", "start " + "x" * 5000 + " the end")
    assert "the end" in str(failed)
    assert "start" not in str(failed)
    assert failed.output.startswith("start")


def test_bad_input_is_also_a_value_error() -> None:
    with pytest.raises(ValueError, match="tasks"):
        raise errors.RowError("tasks.jsonl:3", "no repo")
